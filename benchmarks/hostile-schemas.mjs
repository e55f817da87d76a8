// What schemas cost that ask for much work in few words, those of the tests and as many made at random: each is sent to
// `POST /completion` of cLLM and of llama-server; CPU time of all processes of the server, of the thread alone for which
// other streams wait (Linux), and how their memory grows.
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import * as fc from 'fast-check'
import {
  hostileSchema,
  hostileSchemas,
} from '../packages/backend-llamacpp/test/grammar/hostile-schemas.js'
import { cpuSeconds } from './lib/memory.mjs'
import { childrenOf, residentMb } from './lib/processes.mjs'
import { serverFlags, startServer } from './lib/servers.mjs'
import { quantile, sum, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    random: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now()) },
    // seconds after which a request is given up, and a server that still computes it is started anew
    patience: { type: 'string', default: '10' },
    // starts the server anew for each, so that all of its code is cold
    fresh: { type: 'boolean', default: false },
    // prints each schema's outcome
    verbose: { type: 'boolean', default: false },
  },
})
const made = fc.sample(hostileSchema, { numRuns: Number(values.random), seed: Number(values.seed) })
const schemas = [
  ...Object.entries(hostileSchemas),
  ...made.map((schema, index) => [`at random, ${index}`, schema]),
]
/** The body of its request; undefined where JSON.stringify cannot write what is nested so deeply. */
function bodyOf(schema) {
  try {
    return JSON.stringify({ prompt: 'x', n_predict: 8, temperature: 1, json_schema: schema })
  } catch {
    return undefined
  }
}
const bodies = schemas
  .map(([name, schema]) => [name, bodyOf(schema)])
  .filter(([, body]) => body !== undefined)
const settings = {
  model: values.model,
  slots: 2,
  context: 256,
  llamaServer: values['llama-server'],
}

const processes = ({ pid }) => [pid, ...childrenOf(pid)]
const cpuMs = (server) => 1000 * sum(processes(server).map(cpuSeconds))
/** CPU time of the thread that plans the steps. */
function threadMs({ pid }) {
  const engine = childrenOf(pid)[0] ?? pid
  return readFileSync(`/proc/${engine}/task/${engine}/schedstat`, 'utf8').split(' ')[0] / 1e6
}
const memoryMb = (server) => sum(processes(server).map(residentMb))

/** What came of one request: the response's status, or how it ended without one. */
async function ask(server, body) {
  const signal = AbortSignal.timeout(1000 * Number(values.patience))
  try {
    const init = { method: 'POST', body: body, signal }
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${server.url}/completion`, { ...init, headers })
    await response.text()
    return response.status === 200 ? 'kept to' : response.status < 500 ? 'refused' : 'failed'
  } catch {
    return signal.aborted ? 'no end' : 'crashed'
  }
}

async function measure(kind) {
  let server = await startServer(kind, settings)
  if (!values.fresh) await ask(server, bodyOf({ type: 'string' }))
  const [results, grown] = [[], []]
  let before = memoryMb(server)
  for (const [name, body] of bodies) {
    const [began, held, planned] = [cpuMs(server), memoryMb(server), threadMs(server)]
    const outcome = await ask(server, body)
    const isLost = outcome === 'no end' || outcome === 'crashed'
    const ms = outcome === 'crashed' ? NaN : cpuMs(server) - began
    const thread = outcome === 'crashed' ? NaN : threadMs(server) - planned
    if (values.verbose) console.log(kind, outcome, Math.round(ms), Math.round(thread), name)
    results.push({ name, outcome, ms, thread })
    if (outcome !== 'crashed')
      grown.push({ one: memoryMb(server) - held, all: memoryMb(server) - before })
    if (!isLost && !values.fresh) continue
    await server.stop()
    server = await startServer(kind, settings)
    if (!values.fresh) await ask(server, bodyOf({ type: 'string' }))
    before = memoryMb(server)
  }
  await server.stop()
  const most = (of) => Math.max(...grown.map(of)).toFixed(0)
  return { results, one: most(({ one }) => one), all: most(({ all }) => all) }
}

const outcomes = ['kept to', 'refused', 'failed', 'no end', 'crashed']
const heading = [
  'server',
  ...outcomes,
  'CPU ms, p50',
  'p99',
  'largest',
  'of its thread, p50',
  'largest',
  'MB more, for one',
  'for all',
]
const rows = [heading]
for (const kind of values['llama-server'] === undefined ? ['cllm'] : ['cllm', 'llama-server']) {
  const { results, one, all } = await measure(kind)
  const counts = outcomes.map((each) => results.filter(({ outcome }) => outcome === each).length)
  const of = (key, shares) => {
    const times = results.map((result) => result[key]).filter((ms) => !Number.isNaN(ms))
    return shares.map((share) => quantile(times, share).toFixed(0))
  }
  rows.push([kind, ...counts, ...of('ms', [0.5, 0.99, 1]), ...of('thread', [0.5, 1]), one, all])
}
console.log(table(rows))
process.exit(0)
