// What a protocol costs: the same tokens through the native route and OpenAI's, alternating in one run.
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { median, table } from './lib/statistics.mjs'
import { stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    model: serverFlags.model,
    slots: serverFlags.slots,
    'ctx-size': serverFlags['ctx-size'],
    concurrency: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '5' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '24' },
    requests: { type: 'string', default: '2' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))
const tokens = Number(values.tokens)
const concurrency = Number(values.concurrency)
const perClient = Number(values.requests)

const server = await startServer('cllm', {
  model: values.model,
  slots: Number(values.slots),
  context: Number(values['ctx-size']),
})

/** A conversation as the model's template writes it: all routes compute the same tokens. */
async function rendered(content) {
  const response = await fetch(`${server.url}/apply-template`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content }] }),
  })
  return (await response.json()).prompt
}

/** `concurrency` clients, each sending its next request when the one before has ended. */
async function closedLoop(kind, jobs) {
  const left = [...jobs]
  const answers = []
  const began = performance.now()
  const client = async () => {
    for (let job = left.pop(); job !== undefined; job = left.pop()) {
      answers.push(await stream({ ...server, kind }, job))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, client))
  return {
    speed: (jobs.length * tokens * 1000) / (performance.now() - began),
    ttft: median(answers.map(({ times }) => times[0])),
  }
}

async function freshJobs(count) {
  const jobs = []
  for (let index = 0; index < count; index++) {
    const content = text(Number(values.words), random)
    jobs.push({ content, prompt: await rendered(content), tokens, cache: false })
  }
  return jobs
}

const kinds = ['cllm', 'openai', 'openai-chat']
const results = new Map(kinds.map((kind) => [kind, []]))
for (const kind of kinds) await closedLoop(kind, await freshJobs(2))
for (let round = 0; round < Number(values.rounds); round++) {
  const jobs = await freshJobs(concurrency * perClient)
  for (const index of kinds.keys()) {
    const kind = kinds[(index + round) % kinds.length]
    results.get(kind).push(await closedLoop(kind, jobs))
    await pause(300)
  }
}

const rows = [['route', 'tok/s', 'of native', 'TTFT p50 ms', 'of native']]
const routes = {
  cllm: '/generate_stream',
  openai: '/v1/completions',
  'openai-chat': '/v1/chat/completions',
}
for (const kind of kinds) {
  const cells = ['speed', 'ttft'].flatMap((figure) => {
    // Ratios of neighbours in time, so that a slow spell of the machine weighs on both.
    const ratios = results
      .get(kind)
      .map((result, round) => result[figure] / results.get('cllm')[round][figure])
    const middle = median(results.get(kind).map((result) => result[figure]))
    return [middle.toFixed(1), median(ratios).toFixed(3)]
  })
  rows.push([routes[kind], ...cells])
}
console.log(table(rows))
await server.stop()
process.exit(0)
