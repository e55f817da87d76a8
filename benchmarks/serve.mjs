// Streams over HTTP from cLLM and llama-server, alternating in one run, with fresh prompts.
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    'llama-server': { type: 'string' },
    concurrency: { type: 'string', default: '1,8,16' },
    rounds: { type: 'string', default: '3' },
    slots: { type: 'string', default: '16' },
    'ctx-size': { type: 'string', default: '2048' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '24' },
    requests: { type: 'string', default: '3' },
    only: { type: 'string' },
    seed: { type: 'string', default: String(Date.now()) },
    extra: { type: 'string', default: '' },
  },
})
const random = randomOf(Number(values.seed))
const tokens = Number(values.tokens)
const settings = {
  model: values.model,
  slots: Number(values.slots),
  context: Number(values['ctx-size']),
  llamaServer: values['llama-server'],
  extra: values.extra.split(' ').filter((word) => word !== ''),
}

/** `concurrency` clients, each sending its next request when the one before has ended. */
async function closedLoop(server, concurrency, perClient) {
  const began = performance.now()
  const client = async () => {
    const answers = []
    for (let index = 0; index < perClient; index++) {
      const words = Number(values.words) + Math.floor(random() * 8)
      answers.push(await stream(server, { prompt: text(words, random), tokens }))
    }
    return answers
  }
  const answers = (await Promise.all(Array.from({ length: concurrency }, client))).flat()
  const seconds = (performance.now() - began) / 1000
  return {
    throughput: sum(answers.map(({ times }) => times.length)) / seconds,
    ttft: median(answers.map(({ times }) => times[0])),
    itl: median(answers.flatMap(gaps)),
    itlMax: quantile(answers.flatMap(gaps), 1),
  }
}

const kinds = values.only === undefined ? ['llama-server', 'cllm'] : [values.only]
const servers = []
for (const kind of kinds) servers.push(await startServer(kind, settings))
await pause(3000)
for (const server of servers) await closedLoop(server, 2, 1)

const figures = ['throughput', 'ttft', 'itl', 'itlMax']
const rows = [['concurrency', 'server', 'tok/s', 'TTFT p50 ms', 'ITL p50 ms', 'ITL max ms']]
for (const concurrency of values.concurrency.split(',').map(Number)) {
  const results = new Map(kinds.map((kind) => [kind, []]))
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? servers : servers.toReversed()
    for (const server of order) {
      const perClient = concurrency === 1 ? 2 * Number(values.requests) : Number(values.requests)
      const result = await closedLoop(server, concurrency, perClient)
      results.get(server.kind).push(result)
      await pause(300)
    }
  }
  const middle = (kind, figure) => median(results.get(kind).map((result) => result[figure]))
  for (const kind of kinds) {
    rows.push([concurrency, kind, ...figures.map((figure) => middle(kind, figure).toFixed(1))])
  }
  if (kinds.length === 2) {
    // Ratios of neighbours in time, so that a slow spell of the machine weighs on both.
    const ratio = (figure) =>
      median(
        results
          .get('cllm')
          .map((result, round) => result[figure] / results.get('llama-server')[round][figure]),
      )
    rows.push([concurrency, 'ratio', ...figures.map((figure) => ratio(figure).toFixed(3))])
  }
}
console.log(table(rows))
for (const server of servers) await server.stop()
process.exit(0)
