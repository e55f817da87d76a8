// What a kill of the engine's process costs: the time until each stream's next token, against loading
// the model and computing its tokens again, and how many greedy streams go on as they would have.
import process from 'node:process'
import { parseArgs } from 'node:util'
import { resolveModel } from '../packages/cli/dist/models/resolve-model.js'
import { startEngine } from './lib/engine.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'stories15m' },
    streams: { type: 'string', default: '8' },
    rounds: { type: 'string', default: '4' },
    prompt: { type: 'string', default: '40' },
    tokens: { type: 'string', default: '64' },
    'ctx-size': { type: 'string', default: '256' },
    threads: { type: 'string' },
    gpu: { type: 'string', default: 'off' },
    json: { type: 'boolean', default: false },
  },
})
const [streams, rounds, words, maxTokens] = ['streams', 'rounds', 'prompt', 'tokens'].map((name) =>
  Number(values[name]),
)
/** What a restart may take beside loading and computing. */
const allowanceMs = 500
/** Log probabilities that differ by less can change places with the last bits of a sum. */
const nearlyTied = 0.2

const { path: modelPath } = await resolveModel(values.model)
const backend = {
  modelPath,
  slots: streams,
  contextSize: Number(values['ctx-size']),
  gpu: values.gpu,
  ...(values.threads === undefined ? {} : { threads: Number(values.threads) }),
}
const random = randomOf(1)
const results = []
let same = 0
const deviating = []
for (let round = 0; round < rounds; round++) {
  const began = performance.now()
  const engine = await startEngine(backend, { level: 'silent' })
  const loadMs = performance.now() - began
  results.push({ loadMs, ...(await crash(engine)) })
  engine.kill()
  await engine.ended
}

const limits = results.map(({ loadMs, prefillMs }) => loadMs + prefillMs + allowanceMs)
const all = rounds * streams
const inTime = median(results.map(({ lastMs }) => lastMs)) <= median(limits)
const result = {
  passed: inTime && same / all >= 0.95,
  identical: `${same} of ${all}`,
  nearTies: deviating.filter(({ gap }) => gap < nearlyTied).length,
  deviating,
  rounds: results.map((each, round) => ({ ...each, limitMs: limits[round] })),
}
const ms = (name) => Math.round(median(results.map((each) => each[name])))
console.log(
  values.json
    ? JSON.stringify(result)
    : `${table([
        ['', 'ms, median'],
        ['kill to the first stream that goes on', ms('firstMs')],
        ['kill to the last stream that goes on', ms('lastMs')],
        ['loading the model in a new process', ms('loadMs')],
        ['computing the tokens again', ms('prefillMs')],
        [`limit: both and ${allowanceMs}`, Math.round(median(limits))],
      ])}\n\n${result.identical} greedy streams go on as if nothing had been; of the others ${result.nearTies} part at tokens that are nearly as likely\n${result.passed ? 'passed' : 'failed'}`,
)
process.exitCode = result.passed ? 0 : 1

async function crash({ client, pid }) {
  const prompts = Array.from({ length: streams }, () => ({ text: text(words, random) }))
  const alone = []
  for (const prompt of prompts) alone.push((await draw(client, { prompt, cache: false })).tokens)

  let drawn = 0
  let killedAt
  const atKill = []
  const disturbed = await Promise.all(
    prompts.map((prompt, index) =>
      draw(client, { prompt, cache: false }, (count) => {
        if (killedAt === undefined) atKill[index] = count
        if (++drawn < (streams * maxTokens) / 2 || killedAt !== undefined) return
        killedAt = performance.now()
        process.kill(pid(), 'SIGKILL')
      }),
    ),
  )
  // What had ended before the kill says nothing about it.
  const waits = disturbed.flatMap(({ goesOn }) => (goesOn === undefined ? [] : [goesOn - killedAt]))
  for (const [index, { tokens }] of disturbed.entries()) {
    const expected = alone[index]
    const at = tokens.findIndex((token, place) => token !== expected[place])
    if (at < 0 && tokens.length === expected.length) same++
    else deviating.push(await explain(client, { prompt: prompts[index], tokens, expected, at }))
  }
  return {
    firstMs: Math.min(...waits),
    lastMs: Math.max(...waits),
    prefillMs: await again(client, prompts, alone, atKill),
  }
}

/** Milliseconds to compute all prompts and what was drawn after them, at once. */
async function again(client, prompts, alone, atKill) {
  const whole = await Promise.all(
    prompts.map(async ({ text }, index) => {
      const tokens = await client.tokenize(text)
      return [...tokens, ...alone[index].slice(0, atKill[index] ?? 0)]
    }),
  )
  const began = performance.now()
  await Promise.all(
    whole.map((tokens) => draw(client, { prompt: { tokens }, cache: false, maxTokens: 1 })),
  )
  return performance.now() - began
}

/** How much likelier the likelier one of the two tokens is at which two answers part. */
async function explain(client, { prompt, tokens, expected, at }) {
  const before = [...(await client.tokenize(prompt.text)), ...tokens.slice(0, at)]
  const request = { prompt: { tokens: before }, cache: false, maxTokens: 1, logprobs: 10 }
  const { top = [] } = await draw(client, request)
  const [came, due] = [tokens[at], expected[at]].map(
    (token) => top.find((likely) => likely.token === token)?.logprob ?? NaN,
  )
  return { at, gap: Math.abs(came - due) }
}

async function draw(client, request, onToken = () => {}) {
  const drawn = { tokens: [], goesOn: undefined, top: undefined }
  const { restarts } = client
  const sampling = { temperature: 0, ignoreEos: true }
  for await (const event of client.submit({ maxTokens, sampling, ...request })) {
    if (event.type !== 'token') continue
    drawn.tokens.push(event.token)
    if (client.restarts > restarts) drawn.goesOn ??= performance.now()
    drawn.top ??= event.logprobs?.top
    onToken(drawn.tokens.length)
  }
  return drawn
}
