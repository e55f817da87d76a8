// What a prefix costs that many requests begin with: computed once, copied, waited for.
//
// 1. Requests that share a prefix, all at once, with and without reuse (cLLM alone).
// 2. A lone request whose prefix another slot has, against a cold one (cLLM alone).
// 3. Requests at once with an unseen prefix, cLLM and llama-server alternating.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServers } from './lib/servers.mjs'
import { median, medianRatio, pairsOf, sum, table } from './lib/statistics.mjs'
import { stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    rounds: { type: 'string', default: '3' },
    requests: { type: 'string', default: '32' },
    // of one to two tokens each
    'prefix-words': { type: 'string', default: '400' },
    'own-words': { type: 'string', default: '16' },
    tokens: { type: 'string', default: '16' },
    clients: { type: 'string', default: '8' },
    'unseen-words': { type: 'string', default: '400' },
    // the third alone
    'unseen-only': { type: 'boolean', default: false },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))
const tokens = Number(values.tokens)
const rounds = Number(values.rounds)

/** This many requests with a new prefix, all at once. */
async function wave(server, count, prefixWords, cache) {
  const prefix = text(prefixWords, random)
  const began = performance.now()
  const answers = await Promise.all(
    Array.from({ length: count }, () => {
      const prompt = `${prefix} ${text(Number(values['own-words']), random)}`
      return stream(server, { prompt, tokens, cache })
    }),
  )
  const ms = performance.now() - began
  return {
    ms,
    ttft: median(answers.map(({ times }) => times[0])),
    throughput: sum(answers.map(({ times }) => times.length)) / (ms / 1000),
    computed: sum(
      answers.map(({ last: { timings } }) => timings.prompt_tokens - timings.cached_tokens),
    ),
  }
}

/** A cold request, then one in another slot that begins like it while a third one has that slot. */
async function follower(server) {
  const prefix = text(Number(values['prefix-words']), random)
  const ask = (count) =>
    stream(server, {
      prompt: `${prefix} ${text(Number(values['own-words']), random)}`,
      tokens: count,
    })
  const cold = await ask(1)
  // It goes on in the first one's slot, so that the next one has to have a copy.
  const beside = ask(200)
  await pause(500)
  const copied = await ask(1)
  await beside
  const inPlace = await ask(1)
  return { cold: cold.times[0], copied: copied.times[0], inPlace: inPlace.times[0] }
}

const servers = await startServers(values)
const kinds = servers.map(({ kind }) => kind)
for (const server of servers) await wave(server, 2, 100, false)

const cllm = servers.find(({ kind }) => kind === 'cllm')
if (cllm !== undefined && !values['unseen-only']) {
  const waves = { reuse: [], none: [] }
  const lone = []
  for (let round = 0; round < rounds; round++) {
    for (const kind of round % 2 === 0 ? ['reuse', 'none'] : ['none', 'reuse']) {
      const words = Number(values['prefix-words'])
      waves[kind].push(await wave(cllm, Number(values.requests), words, kind === 'reuse'))
      await pause(300)
    }
    lone.push(await follower(cllm))
  }
  const row = (name, kind) => {
    const middle = (figure) => median(waves[kind].map((result) => result[figure]))
    return [name, ...['ms', 'ttft', 'throughput', 'computed'].map((at) => middle(at).toFixed(0))]
  }
  const heading = ['requests at once', 'total ms', 'TTFT p50 ms', 'tok/s', 'prompt tokens computed']
  console.log(`${table([heading, row('with reuse', 'reuse'), row('without', 'none')])}\n`)
  const middle = (figure) => median(lone.map((result) => result[figure]))
  const shares = (figure) => median(lone.map((result) => result[figure] / result.cold)).toFixed(3)
  console.log(
    `${table([
      ['lone request', 'TTFT ms', 'of cold'],
      ['cold', middle('cold').toFixed(0), '1'],
      ['copied beside a running one', middle('copied').toFixed(0), shares('copied')],
      ['alone', middle('inPlace').toFixed(0), shares('inPlace')],
    ])}\n`,
  )
}

const unseen = new Map(kinds.map((kind) => [kind, []]))
for (let round = 0; round < rounds; round++) {
  for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
    const result = await wave(server, Number(values.clients), Number(values['unseen-words']), true)
    unseen.get(server.kind).push(result)
    await pause(500)
  }
}
const figures = ['throughput', 'ttft', 'ms']
const rows = [['unseen prefix', 'tok/s', 'TTFT p50 ms', 'total ms']]
for (const kind of kinds) {
  const middle = (figure) => median(unseen.get(kind).map((result) => result[figure]))
  rows.push([kind, ...figures.map((figure) => middle(figure).toFixed(1))])
}
if (kinds.length === 2) {
  const [ours, others] = [unseen.get('cllm'), unseen.get('llama-server')]
  rows.push(['ratio', ...figures.map((at) => medianRatio(pairsOf(ours, others, at)))])
  const pairs = { prefix: pairsOf(ours, others, 'throughput') }
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(pairs))
}
console.log(table(rows))
for (const server of servers) await server.stop()
process.exit(0)
