// A cluster under faults, and what it costs: what each of `--only` (default: all) finds, as lines of a
// table. Linux; partitions need the right to make network namespaces.
import process from 'node:process'
import { parseArgs } from 'node:util'
import { resolveModel } from '../packages/cli/dist/models/resolve-model.js'
import { carry, messages, overhead, revocation, scale } from './lib/cluster-costs.mjs'
import { batch } from './lib/cluster-batch.mjs'
import { startCluster, startNamespace } from './lib/cluster-processes.mjs'
import { gapsAt, keepAsking, streamRequests, undisturbed } from './lib/cluster-streams.mjs'
import { pause } from './lib/servers.mjs'
import { quantile, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'stories15m' },
    // of: kills, room, pauses, partitions, redis, rolling, overhead, messages, carry, scale, revocation,
    // batch
    only: { type: 'string' },
    streams: { type: 'string', default: '64' },
    tokens: { type: 'string', default: '80' },
    workers: { type: 'string', default: '3' },
    slots: { type: 'string', default: '24' },
    kills: { type: 'string', default: '20' },
    lines: { type: 'string', default: '5000' },
    // seconds of undisturbed load before and after a fault
    calm: { type: 'string', default: '4' },
    json: { type: 'boolean', default: false },
  },
})
const [streams, tokens, workerCount, slots, kills, calm] = [
  'streams',
  'tokens',
  'workers',
  'slots',
  'kills',
  'calm',
].map((name) => Number(values[name]))
const { path: model } = await resolveModel(values.model)
const requests = streamRequests(streams, tokens)
const results = []
const note = (what, found) => {
  results.push({ what, ...found })
  if (!values.json) console.log(`${what}: ${JSON.stringify(found)}`)
}

const scenarios = {
  kills: () => underLoad({}, killWorkers),
  // The others have a slot for each stream of the one that dies: what is left is what the cluster costs.
  room: () => underLoad({ room: Math.ceil(streams / (workerCount - 1)) }, killWorkers),
  pauses: () => underLoad({}, pauseProcesses),
  partitions,
  redis: () => underLoad({}, stopRedis),
  rolling: () => underLoad({ more: ['--drain-migrate'] }, rollingRestart),
  overhead: async () => note('overhead', await overhead(model)),
  messages: async () => {
    for (const count of [1, streams]) note(`messages of ${count} streams`, await messages(count))
  },
  carry: async () => note('a front', await carry(streams)),
  scale: async () => note('scale', await scale()),
  revocation: async () => note('revocation', await revocation()),
  batch: async () => note('batch', await batch(model, Number(values.lines))),
}
for (const name of values.only?.split(',') ?? Object.keys(scenarios)) await scenarios[name]()
if (values.json) console.log(JSON.stringify(results))
else {
  const names = [...new Set(results.flatMap(Object.keys))]
  console.log(table([names, ...results.map((one) => names.map((name) => one[name] ?? ''))]))
}
const bad = results.filter(({ passed = true }) => !passed)
process.exit(bad.length === 0 ? 0 : 1)

/** Starts workers and two fronts, and disturbs them while all streams run again and again. */
async function underLoad({ more, namespace, room = slots }, disturb) {
  const cluster = await startCluster({ model, slots: room, bind: namespace?.host })
  const start = () => cluster.worker({ more })
  const workers = []
  for (let index = 0; index < workerCount; index++) workers.push(await start())
  const fronts = [await cluster.front(), await cluster.front()]
  const expected = await undisturbed(fronts[0].url, requests)
  const parts = { cluster, workers, fronts, start, namespace }
  await disturb({
    ...parts,
    room,
    load: () => keepAsking(() => fronts.map(({ url }) => url), requests, expected),
  })
  for (const one of [...workers, ...fronts]) one.kill()
  await cluster.redis.kill()
}

/** Disturbs a load once, and tells what came of it. */
async function once({ load }, what, disturb) {
  const asking = load()
  await pause(calm * 1000)
  const moments = []
  await disturb((at = performance.now()) => moments.push(at))
  await pause(calm * 1000)
  const found = await asking.stop()
  const gaps = gapsAt(asking.times, moments)
  const passed = found.lost + found.repeated + found.changed + found.failed === 0
  note(what, {
    passed,
    ...found,
    'gap p50 ms': Math.round(quantile(gaps, 0.5)),
    'gap p99 ms': Math.round(quantile(gaps, 0.99)),
    'TTFT p99 ms': Math.round(quantile(asking.firsts, 0.99)),
    ...(asking.errors.length > 0 && { errors: [...new Set(asking.errors)].slice(0, 3).join('; ') }),
  })
}

async function killWorkers(parts) {
  const { workers, start, room } = parts
  const what = `a worker of ${workerCount} with ${room} slots killed, ${kills} times`
  await once(parts, what, async (mark) => {
    for (let kill = 0; kill < kills; kill++) {
      const [victim] = workers.splice(kill % workers.length, 1)
      victim.signal('SIGKILL')
      mark()
      workers.push(await start())
      await pause(2500)
    }
  })
}

async function pauseProcesses(parts) {
  for (const [name, one] of [
    ['worker', parts.workers[0]],
    ['front', parts.fronts[0]],
  ]) {
    for (const seconds of [3, 15]) {
      await once(parts, `a ${name} stopped for ${seconds} s`, async (mark) => {
        one.signal('SIGSTOP')
        mark()
        await pause(seconds * 1000)
        one.signal('SIGCONT')
      })
    }
  }
}

async function partitions() {
  const namespace = startNamespace()
  if (namespace === undefined) return note('partitions', { skipped: 'no network namespaces here' })
  await underLoad({ namespace }, async (parts) => {
    const { cluster, workers } = parts
    const { host, inside, cut, mend, mute, unmute } = namespace
    const url = `redis://${host}:${cluster.redis.port}`
    workers.push(await cluster.worker({ url, inside }))
    await pause(2000)
    for (const { what, begin, end } of [
      { what: 'partition', begin: cut, end: mend },
      { what: 'one way', begin: mute, end: unmute },
    ]) {
      for (const seconds of [3, 15]) {
        await once(parts, `${what}, ${seconds} s`, async (mark) => {
          begin()
          mark()
          await pause(seconds * 1000)
          end()
        })
      }
    }
  })
}

async function stopRedis(parts) {
  const { redis } = parts.cluster
  await once(parts, 'Redis killed and restarted', async (mark) => {
    await redis.kill()
    mark()
    await pause(1000)
    await redis.restart()
  })
  await once(parts, 'Redis stopped for 10 s', async (mark) => {
    process.kill(redis.pid, 'SIGSTOP')
    mark()
    await pause(10_000)
    process.kill(redis.pid, 'SIGCONT')
  })
}

async function rollingRestart(parts) {
  const { cluster, workers, fronts, start } = parts
  await once(parts, 'undisturbed', async (mark) => {
    mark()
    await pause(20_000)
  })
  await once(parts, `rolling restart of ${workerCount} workers and 2 fronts`, async (mark) => {
    for (let index = 0; index < workerCount; index++) {
      // The new one is there before the old one goes, as with a surge of one.
      workers.push(await start())
      mark()
      await workers.shift().stop()
    }
    for (let index = 0; index < 2; index++) {
      fronts.push(await cluster.front())
      const old = fronts.shift()
      // As with a balancer: first nobody sends it requests any more.
      await pause(500)
      await old.stop()
    }
  })
}
