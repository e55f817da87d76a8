// Streams over HTTP from cLLM and llama-server, alternating in one run, with fresh prompts; on request
// beside processes that compute without end.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { closedLoop } from './lib/closed-loop.mjs'
import { randomOf } from './lib/prompts.mjs'
import { pause, serverFlags, startServers } from './lib/servers.mjs'
import { median, medianRatio, pairsOf, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    concurrency: { type: 'string', default: '1,8,16' },
    rounds: { type: 'string', default: '3' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '24' },
    requests: { type: 'string', default: '3' },
    // processes that compute without end beside the servers
    busy: { type: 'string', default: '0' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))
const load = (concurrency, requests) => {
  const [words, tokens] = [Number(values.words), Number(values.tokens)]
  return { concurrency, requests, words, tokens, random }
}

const servers = await startServers(values)
const kinds = servers.map(({ kind }) => kind)
for (const server of servers) await closedLoop(server, load(2, 1))
for (let busy = 0; busy < Number(values.busy); busy++) {
  const neighbour = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
  process.once('exit', () => neighbour.kill('SIGKILL'))
}

const figures = ['throughput', 'ttft', 'itl', 'itlP99', 'itlMax']
const pairs = {}
const rows = [
  ['concurrency', 'server', 'tok/s', 'TTFT p50 ms', 'ITL p50 ms', 'ITL p99 ms', 'ITL max ms'],
]
for (const concurrency of values.concurrency.split(',').map(Number)) {
  const results = new Map(kinds.map((kind) => [kind, []]))
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? servers : servers.toReversed()
    for (const server of order) {
      const perClient = concurrency === 1 ? 2 * Number(values.requests) : Number(values.requests)
      const result = await closedLoop(server, load(concurrency, perClient))
      results.get(server.kind).push(result)
      await pause(300)
    }
  }
  const middle = (kind, figure) => median(results.get(kind).map((result) => result[figure]))
  for (const kind of kinds) {
    rows.push([concurrency, kind, ...figures.map((figure) => middle(kind, figure).toFixed(1))])
  }
  if (kinds.length === 2) {
    const [ours, others] = [results.get('cllm'), results.get('llama-server')]
    for (const at of figures) pairs[`${at}-${concurrency}`] = pairsOf(ours, others, at)
    rows.push([
      concurrency,
      'ratio',
      ...figures.map((at) => medianRatio(pairsOf(ours, others, at))),
    ])
  }
}
console.log(table(rows))
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(pairs))
for (const server of servers) await server.stop()
process.exit(0)
