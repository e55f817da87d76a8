// What `cllm bench` itself costs: requests per second against a server that answers at once, and how
// late it notes events that come at a given rate.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import {
  agentFor,
  apis,
  distributionOf,
  parseLengths,
  runLoad,
  summarize,
  syntheticDataset,
} from '../packages/bench/dist/index.js'
import { table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '4000' },
    events: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '10' },
  },
})

async function startServer(every) {
  const file = fileURLToPath(new URL('lib/instant-server.mjs', import.meta.url))
  const child = fork(file, ['--every', String(every)])
  const [port] = await once(child, 'message')
  const url = new URL(`http://127.0.0.1:${port}`)
  const target = { name: 'instant', url, api: apis.get('cllm'), headers: {}, extraBody: {} }
  return { url, target: { ...target, agent: agentFor(url, 'reuse') }, stop: () => child.kill() }
}

const loadOf = (concurrency, requests, tokens) => ({
  shape: { kind: 'closed', concurrency, rampMs: 0 },
  dataset: syntheticDataset({
    inputLengths: parseLengths('32'),
    outputLengths: parseLengths(String(tokens)),
    seed: 1,
  }),
  requests,
  seed: 1,
  temperature: 0,
  ignoreEos: true,
  timeoutMs: 60_000,
})
const run = (salt) => ({ salt, firstItem: 0, signal: new AbortController().signal })

const rows = [['clients', 'tokens per answer', 'requests/s', 'E2E p50 ms', 'E2E p99 ms']]
const instant = await startServer(0)
await runLoad(instant.target, loadOf(8, 500, 1), run('warm-up'))
for (const [concurrency, tokens] of [
  [1, 1],
  [8, 1],
  [32, 1],
  [8, 64],
]) {
  const load = loadOf(concurrency, Number(values.requests), tokens)
  const { records } = await runLoad(instant.target, load, run(`${concurrency}/${tokens}`))
  const { requestsPerSecond, e2eMs } = summarize(records)
  rows.push([
    concurrency,
    tokens,
    requestsPerSecond.toFixed(0),
    e2eMs.p50.toFixed(2),
    e2eMs.p99.toFixed(2),
  ])
}
instant.stop()
console.log(table(rows.map((row) => row.map(String))))

const every = 10
const streams = Math.round((Number(values.events) * every) / 1000)
const perStream = Math.round((Number(values.seconds) * 1000) / every)
const paced = await startServer(every)
// The server knows its streams by their prompts: one run, each prompt once.
const began = performance.timeOrigin + performance.now()
const { records, eventLoopP99Ms } = await runLoad(
  paced.target,
  loadOf(streams, streams, perStream),
  run('paced'),
)
const sent = Object.values(await (await fetch(paced.url)).json())
paced.stop()
// Streams begin together, so the first events tell which is whose: the n-th sent is the n-th to come.
const byFirst = (a, b) => a[0] - b[0]
const arrived = records
  .map(({ arrivalsMs }) => arrivalsMs.map((time) => began + time))
  .sort(byFirst)
const lags = sent
  .sort(byFirst)
  .flatMap((times, stream) => times.map((time, index) => arrived[stream][index] - time))
const lag = distributionOf(lags)
console.log(
  table([
    ['events/s', 'lag mean ms', 'p50', 'p99', 'max', "client's event loop late p99 ms"],
    [
      ((1000 * lags.length) / Math.max(...records.map(({ endMs }) => endMs))).toFixed(0),
      ...[lag.mean, lag.p50, lag.p99, lag.max, eventLoopP99Ms].map((value) => value.toFixed(2)),
    ],
  ]),
)
