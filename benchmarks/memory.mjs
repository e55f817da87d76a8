// What `cllm serve` takes beyond weights and KV, in both processes: when it has started, when V8 has given back
// what only the start needed, after requests, and when it has rested after them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { allocatedBytes, cpuSeconds, memoryBeyond } from './lib/memory.mjs'
import { childrenOf } from './lib/processes.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { table } from './lib/statistics.mjs'
import { stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    requests: { type: 'string', default: '200' },
    concurrency: { type: 'string', default: '16' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '24' },
    rest: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
  },
})
const random = randomOf(Number(values.seed))
const settings = {
  model: values.model,
  slots: Number(values.slots),
  context: Number(values['ctx-size']),
}
const extra = values.extra.split(' ').filter((word) => word !== '')

/** A server of its own is asked, as lines of this level would be in the way of what is measured. */
async function allocated() {
  const folder = mkdtempSync(join(tmpdir(), 'cllm-memory-'))
  const file = join(folder, 'log')
  const logging = ['--log-level', 'debug', '--log-file', file]
  const server = await startServer('cllm', { ...settings, extra: [...extra, ...logging] })
  await server.stop()
  const log = readFileSync(file, 'utf8')
  rmSync(folder, { recursive: true })
  return allocatedBytes(log)
}

async function closedLoop(server) {
  let left = Number(values.requests)
  const client = async () => {
    while (left-- > 0) {
      const prompt = text(Number(values.words), random)
      await stream(server, { prompt, tokens: Number(values.tokens) })
    }
  }
  await Promise.all(Array.from({ length: Number(values.concurrency) }, client))
}

const known = await allocated()
const server = await startServer('cllm', { ...settings, extra })
const rows = [['MiB', 'server', 'engine', 'programs and libraries', 'all', 'CPU s, server, engine']]
const measure = (when) => {
  const { server: parent, engine, files, total } = memoryBeyond(server.pid, known)
  const cpu = [server.pid, ...childrenOf(server.pid)].map((pid) => cpuSeconds(pid).toFixed(2))
  const mib = [parent, engine, files, total].map((bytes) => (bytes / 1024 ** 2).toFixed(1))
  rows.push([when, ...mib, cpu.join(', ')])
}
await pause(3000)
measure('started')
await pause(12_000)
measure('15 s after the start')
await closedLoop(server)
measure(`after ${String(values.requests)} requests`)
await pause(1000 * Number(values.rest))
measure(`${String(values.rest)} s later`)
console.log(table(rows))
await server.stop()
process.exit(0)
