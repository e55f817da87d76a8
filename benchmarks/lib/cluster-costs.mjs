import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { ClusterFront, RedisBus, SharedText } from '../../packages/cluster/dist/index.js'
import { RedisServer } from '../../packages/cluster/test/redis-server.js'
import { silentLogger, systemClock } from '../../packages/core/dist/index.js'
import { startAlone, startCluster } from './cluster-processes.mjs'
import { complete } from './completion.mjs'
import { pause } from './servers.mjs'
import { median, quantile } from './statistics.mjs'

/** CPU milliseconds of a process so far (Linux, 100 ticks a second). */
function cpuMs(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** The time between tokens of one stream through a cluster, against the same engine in `cllm serve`. */
export async function overhead(model, rounds = 20, tokens = 400) {
  const cluster = await startCluster({ model, slots: 2 })
  const [worker, front] = [await cluster.worker(), await cluster.front()]
  const alone = await startAlone({ model, slots: 2 })
  const sides = { alone, cluster: front }
  const gaps = { alone: [], cluster: [] }
  const ask = async (side) => {
    const body = { prompt: 'Once upon a time', n_predict: tokens, stream: true, ignore_eos: true }
    const { times } = await complete(sides[side].url, { body })
    return times.slice(1).map((time, index) => time - times[index])
  }
  for (const side of ['alone', 'cluster']) await ask(side)
  const before = [alone, front, worker].map(({ pid }) => cpuMs(pid))
  for (let round = 0; round < rounds; round++) {
    for (const side of round % 2 === 0 ? ['alone', 'cluster'] : ['cluster', 'alone']) {
      gaps[side].push(...(await ask(side)))
    }
  }
  const messages = rounds * tokens
  const cpu = [alone, front, worker].map(({ pid }, index) =>
    Math.round((1000 * (cpuMs(pid) - before[index])) / messages),
  )
  for (const one of [alone, front, worker]) one.kill()
  await cluster.redis.kill()
  const [ours, theirs] = [median(gaps.cluster), median(gaps.alone)]
  return {
    'p50 ms': ours.toFixed(2),
    'p50 ms alone': theirs.toFixed(2),
    'added ms': (ours - theirs).toFixed(2),
    'CPU µs a message: server alone': cpu[0],
    front: cpu[1],
    worker: cpu[2],
  }
}

const fakeWorker = fileURLToPath(new URL('fake-worker.mjs', import.meta.url))
const fakeFront = fileURLToPath(new URL('fake-front.mjs', import.meta.url))

/** A process of such a script, once it has said something. */
async function start(script, ...args) {
  const child = fork(script, args.map(String))
  await once(child, 'message')
  return child
}

async function cpuOf(child) {
  child.send('cpu')
  const [{ micros }] = await once(child, 'message')
  return micros
}

/**
 * CPU microseconds for each message and token between a worker and a front, on an engine that computes nothing;
 * what the same engine takes without a cluster is taken off.
 */
export async function messages(streams, { stepMs = 20, seconds = 10 } = {}) {
  const redis = await RedisServer.start()
  const worker = await start(fakeWorker, redis.url, 'worker', streams, stepMs)
  const front = await start(fakeFront, redis.url, streams, stepMs, seconds)
  const before = await cpuOf(worker)
  const [here] = await once(front, 'message')
  const there = (await cpuOf(worker)) - before
  worker.disconnect()
  const one = await start(fakeFront, 'alone', streams, stepMs, seconds)
  const [alone] = await once(one, 'message')
  await redis.kill()
  const own = there - (alone.micros * here.tokens) / alone.tokens
  const per = (micros, count) => (micros / count).toFixed(1)
  return {
    streams,
    messages: here.messages,
    tokens: here.tokens,
    'CPU µs a message: front': per(here.micros, here.messages),
    worker: per(own, here.messages),
    'a token: front': per(here.micros, here.tokens),
    'worker ': per(own, here.tokens),
    'engine alone': per(alone.micros, alone.tokens),
  }
}

/** What a front with HTTP takes of a core for each token of so many streams, on workers that compute nothing. */
export async function carry(streams, { stepMs = 20, seconds = 10 } = {}) {
  const cluster = await startCluster({})
  const worker = await start(fakeWorker, cluster.redis.url, 'worker', streams, stepMs)
  const front = await cluster.front()
  while (!(await fetch(`${front.url}/v1/models`)).ok) await pause(100)
  const times = []
  const over = new AbortController()
  const loop = async (_, index) => {
    while (!over.signal.aborted) {
      const body = { prompt: `story ${index}`, n_predict: 200, stream: true, ignore_eos: true }
      times.push(...(await complete(front.url, { body })).times)
    }
  }
  const loops = Array.from({ length: streams }, loop)
  await pause(3000)
  const [began, before] = [performance.now(), cpuMs(front.pid)]
  await pause(1000 * seconds)
  const [ended, after] = [performance.now(), cpuMs(front.pid)]
  over.abort()
  await Promise.all(loops)
  const tokens = times.filter((time) => time >= began && time < ended).length
  worker.disconnect()
  front.kill()
  await cluster.redis.kill()
  const micros = (1000 * (after - before)) / tokens
  return {
    streams,
    'tok/s': Math.round((1000 * tokens) / (ended - began)),
    'CPU µs a token: front with HTTP': micros.toFixed(1),
    'tok/s of a core': Math.round(1e6 / micros),
  }
}

/** Tokens per second of three workers whose engines compute nothing, over those of one. */
export async function scale({ slots = 8, stepMs = 20, seconds = 8 } = {}) {
  const rates = []
  for (const count of [1, 3]) {
    const redis = await RedisServer.start()
    const workers = []
    for (let index = 0; index < count; index++) {
      workers.push(await start(fakeWorker, redis.url, `worker-${index}`, slots, stepMs))
    }
    const bus = await RedisBus.connect({ url: redis.url })
    const front = new ClusterFront({ id: 'front', bus })
    await front.start()
    const client = front.client('fake')
    while (client.workers.members.filter(({ report }) => report).length < count) await pause(20)
    let tokens = 0
    const until = performance.now() + 1000 * seconds
    const loop = async (_, index) => {
      while (performance.now() < until) {
        const asked = { prompt: { text: `story ${index}` }, maxTokens: 100 }
        for await (const { type } of client.submit(asked)) {
          if (type === 'token' && performance.now() < until) tokens++
        }
      }
    }
    await Promise.all(Array.from({ length: count * slots }, loop))
    rates.push(tokens / seconds)
    for (const child of workers) child.kill('SIGKILL')
    await front.close()
    await bus.close()
    await redis.kill()
  }
  const [one, three] = rates
  return {
    'tok/s of one worker': Math.round(one),
    'of three': Math.round(three),
    ratio: (three / one).toFixed(2),
  }
}

/** Milliseconds from the change of the cluster's keys to a front's hearing of it. */
export async function revocation(times = 30) {
  const redis = await RedisServer.start()
  const [here, there] = await Promise.all([1, 2].map(() => RedisBus.connect({ url: redis.url })))
  let heard = () => {}
  const close = await new SharedText(there, 'keys').watch(systemClock, silentLogger, () => heard())
  const text = new SharedText(here, 'keys')
  const all = []
  for (let index = 0; index < times; index++) {
    await pause(37 * (index % 11))
    const waiting = new Promise((resolve) => (heard = resolve))
    await text.update(() => `keys ${index}`)
    const began = performance.now()
    await waiting
    all.push(performance.now() - began)
  }
  close()
  await Promise.all([here.close(), there.close()])
  await redis.kill()
  return {
    'p50 ms': Math.round(median(all)),
    'most ms': Math.round(quantile(all, 1)),
    passed: quantile(all, 1) < 1000,
  }
}
