import {
  batchPriority,
  CllmError,
  createEngine,
  type EngineActivity,
  type EngineStatistics,
  failureOf,
  type GenerateRequest,
  type Logger,
  nextNumber,
  PluginRegistry,
  type RouterPolicy,
  silentLogger,
  SimulatedClock,
  systemRandom,
  pause,
} from '@cllm/core'
import {
  type FromEngine,
  hostEngine,
  LocalEngineClient,
  SupervisedEngineClient,
  type ToEngine,
} from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed, jsonChannel } from '@cllm/testing'
import { createPolicy, createRouter } from '@cllm/scheduler'
import {
  ClusterDirectory,
  ClusterFront,
  Link,
  type Envelope,
  protocol,
  readEnvelope,
  whyIncompatible,
  WorkerHost,
} from '@cllm/cluster'
import { FakeServer, type Fate } from './fake-bus.js'
import { StoppableClock } from './stoppable-clock.js'
import * as fc from 'fast-check'
import t from 'tap'
import {
  mergeActivities,
  mergeStatistics,
  LastStatistics,
} from '../src/front/calls/merge-answers.js'
import { directLinks } from '../src/local/local-workers.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../src/messages.js'
import { WorkerSessions } from '../src/worker/worker-sessions.js'
import { Members } from '../src/front/members.js'
import { PlacedRequest } from '../src/front/placing/placed-request.js'
import { defaultPlacingOptions, Placing } from '../src/front/placing/placing.js'
import { sleepless } from '../src/front/sleep-watch.js'

/** After this time nothing goes wrong any more, so that everything can end. */
const calmMs = 20_000

/** How often envelopes are lost, come twice, and come late, which is how they overtake each other. */
const troubles = fc.record({
  lost: fc.constantFrom(0, 0.002, 0.02),
  twice: fc.constantFrom(0, 0.05),
  late: fc.constantFrom(0, 0.01, 0.1),
  seed: fc.nat(2 ** 30),
})

type Troubles = typeof troubles extends fc.Arbitrary<infer T> ? T : never

function fateOf({ lost, twice, late, seed }: Troubles, clock: SimulatedClock): Fate {
  let state = seed
  const chance = () => (state = nextNumber(state)) / 2 ** 32
  return () => {
    if (clock.now() > calmMs) return [1]
    if (chance() < lost) return []
    const delay = chance() < late ? 1 + 60 * chance() : 1
    return chance() < twice ? [delay, delay + 30 * chance()] : [delay]
  }
}

const message = fc.record({ at: fc.nat(3000), text: fc.string({ maxLength: 5 }) })

t.test('a link hands over each message once and in order, or closes', async (t) => {
  let runs = 0
  let closed = 0
  await fc.assert(
    fc.asyncProperty(troubles, fc.array(message, { maxLength: 200 }), async (trouble, messages) => {
      runs++
      const clock = new SimulatedClock()
      const server = new FakeServer(clock, fateOf(trouble, clock))
      const ends = [0, 1].map((index) => {
        const bus = server.connect()
        const link: Link<number, number> = new Link({
          id: 'link',
          clock,
          times: { heartbeatMs: 500, silenceMs: 2000 },
          send: (envelope) => bus.send(String(1 - index), envelope),
          isReachable: () => true,
        })
        bus.listen(String(index), (envelope) =>
          link.receive(readEnvelope(envelope) as Envelope<number>),
        )
        return link
      })
      const [one, other] = ends as [(typeof ends)[0], (typeof ends)[0]]
      const got: number[] = []
      let ended = 0
      for (const link of ends) link.onClose(() => ended++)
      other.onMessage((number) => got.push(number))
      const sorted = messages.toSorted((a, b) => a.at - b.at)
      for (const [index, { at }] of sorted.entries()) clock.at(at, () => one.send(index))
      clock.advance(calmMs)
      t.same(got, [...got.keys()], 'what arrived is the beginning of what was sent')
      if (got.length < messages.length) t.equal(ended, 2, 'what is missing closed both ends')
      closed += ended / 2
      one.close('the test is over')
      clock.advance(1)
    }),
    { numRuns: 100 },
  )
  t.ok(closed >= runs / 10, `${closed} links closed`)
})

const request: fc.Arbitrary<GenerateRequest> = fc.record({
  prompt: fc.record({ text: fc.constantFrom('Once upon a time', 'x', 'the cat sat on the mat') }),
  maxTokens: fc.integer({ min: 1, max: 60 }),
  stop: fc.constantFrom([], [' the', 'a']),
  sampling: fc.record({
    temperature: fc.constantFrom(0, 0.7, 3),
    seed: fc.nat(1000),
    repetitionPenalty: fc.constantFrom(1, 1.3),
  }),
})

const load = fc.array(fc.tuple(fc.nat(1000), request), { minLength: 1, maxLength: 10 })
const deaths = fc.array(
  fc.record({ at: fc.nat(3000), worker: fc.nat(2), how: fc.constantFrom('dies', 'migrates') }),
  { maxLength: 4 },
)

function engineOn(clock: SimulatedClock, stepMs = 10, contextSize = 256) {
  const backend = new FakeBackend({ clock, stepMs: () => stepMs, contextSize })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock })
  return { engine, client: new LocalEngineClient(engine, new PluginRegistry(), systemRandom) }
}

/** All that a stream says, without times and what was cached. */
async function said(
  client: LocalEngineClient | ReturnType<ClusterFront['client']>,
  asked: GenerateRequest,
) {
  const events: unknown[] = []
  for await (const event of client.submit(asked)) {
    if (event.type === 'token') events.push([event.token, event.text])
    if (event.type === 'end') events.push([event.reason, event.text, event.usage.generatedTokens])
  }
  return events
}

t.test('whatever is lost, doubled, late or dies: each token once and in order', async (t) => {
  let moved = 0
  await fc.assert(
    fc.asyncProperty(troubles, load, deaths, async (trouble, requests, dying) => {
      const clock = new SimulatedClock()
      const server = new FakeServer(clock, fateOf(trouble, clock))
      let count = 0
      const startWorker = async () => {
        const { engine, client } = engineOn(clock)
        const bus = server.connect()
        const id = `worker-${++count}`
        const info = engine.info()
        const worker = new WorkerHost({ id, bus, client, info, clock, fingerprint: 'f', host: 'h' })
        await worker.start()
        return {
          dies() {
            bus.die()
            void client.close()
          },
          migrates() {
            void worker.drain({ migrate: true }).then(async () => await worker.close())
          },
        }
      }
      const workers = await Promise.all([0, 1, 2].map(startWorker))
      const fronts = ['a', 'b'].map(
        (id) =>
          new ClusterFront({
            id,
            bus: server.connect(),
            clock,
            options: { patienceMs: Infinity, maxMoves: Infinity },
          }),
      )
      await Promise.all(fronts.map(async (front) => await front.start()))
      for (const { at, worker, how } of dying) {
        clock.at(at, () => {
          workers[worker]?.[how]()
          clock.at(at + 300, () => void startWorker().then((next) => (workers[worker] = next)))
        })
      }
      const clients = fronts.map((front) => front.client('fake'))
      const alone = engineOn(clock)
      const streams = requests.map(async ([at, asked], index) => {
        await new Promise<void>((resolve) => void clock.at(at, resolve))
        return await said(clients[index % 2]!, asked)
      })
      const answers = await drive(clock, Promise.all(streams))
      const expected = await drive(
        clock,
        Promise.all(requests.map(async ([, asked]) => await said(alone.client, asked))),
      )
      t.same(answers, expected)
      for (const { workers: channel } of clients) moved += channel.counts.movedExactly
      await Promise.all(fronts.map(async (front) => await front.close()))
    }),
    { numRuns: 30 },
  )
  t.ok(moved > 10, `${moved} requests moved`)
})

t.test(
  'a worker that migrates is rid of its streams, where others continue them exactly',
  async (t) => {
    const clock = new SimulatedClock()
    const server = new FakeServer(clock, () => [1])
    const startWorker = async (id: string, fingerprint: string) => {
      const { engine, client } = engineOn(clock)
      const info = engine.info()
      const parts = { id, bus: server.connect(), client, info, clock, fingerprint, host: 'h' }
      const worker = new WorkerHost(parts)
      await worker.start()
      return worker
    }
    const after = async (ms: number) => await drive(clock, pause(clock, ms))
    const one = await startWorker('one', 'f')
    const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
    await front.start()
    const client = front.client('fake')
    const asked = { prompt: { text: 'x' }, maxTokens: 200, sampling: { seed: 1, temperature: 1 } }
    const expected = await drive(clock, said(engineOn(clock).client, asked))
    const stream = said(client, asked)
    await after(300)
    t.equal(one.open, 1)
    const other = await startWorker('other', 'g')
    await after(600)
    let isRid = false
    void one.drain().then(() => (isRid = true))
    await after(20)
    void one.drain({ migrate: true })
    await after(20)
    t.same([one.open, other.open, isRid], [1, 0, false], 'not where the numbers may differ')
    const same = await startWorker('same', 'f')
    await after(600)
    t.same([one.open, same.open, isRid], [0, 1, true], 'to one that came later')
    t.same(await drive(clock, stream), expected)
    t.match(client.workers.counts, { movedExactly: 1, movedInexactly: 0 })
    await front.close()
  },
)

t.test('what the flight recorders of all workers have is one recording', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const start = () => {
    const [here, there] = jsonChannel<ToEngine, FromEngine>()
    hostEngine(engineOn(clock).engine, new PluginRegistry(), there)
    return { channel: here, kill: () => {} }
  }
  const startWorker = async (id: string) => {
    const client = new SupervisedEngineClient({ start, clock })
    const about = { info: await client.ready(), clock, fingerprint: 'f', host: 'h' }
    const worker = new WorkerHost({ id, bus: server.connect(), client, ...about })
    await worker.start()
    return worker
  }
  const [one, other] = [await startWorker('one'), await startWorker('other')]
  const front = new ClusterFront({
    id: 'front',
    bus: server.connect(),
    clock,
    router: byTenant,
  })
  await front.start()
  const client = front.client('fake')
  const after = async (ms: number) => await drive(clock, pause(clock, ms))
  await after(600)
  const prompt = { tokens: Array.from({ length: 100 }, (_, index) => 4 + index) }
  const streams = ['0', '1'].map(async (tenant) => {
    const sampling = { seed: 1, ignoreEos: true }
    return await said(client, { id: `of ${tenant}`, prompt, maxTokens: 60, tenant, sampling })
  })
  await after(400)
  t.same([one.open, other.open], [1, 1])
  void one.drain({ migrate: true })
  await drive(clock, Promise.all(streams))
  const recording = await drive(clock, client.recording())
  t.match(recording, { engines: 2, model: 'fake', limits: { slots: 4 }, reason: 'asked' })
  const arrivals = recording.arrivals.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  t.match(arrivals, [
    { id: 'of 0', tokens: 60, end: 'done', promptTokens: 100, maxTokens: 60 },
    { id: 'of 1', tokens: 60, end: 'done', promptTokens: 100, maxTokens: 60 },
  ])
  t.equal(arrivals.length, 2, 'the one that has moved is one')
  const [moved, stayed] = arrivals
  t.ok(moved!.blocks.length > 0)
  t.same(moved!.blocks, stayed!.blocks, 'the same beginning has the same numbers everywhere')
  t.ok(moved!.firstTokenMs! < 400 && moved!.endMs! > 600)
  t.same(new Set(recording.steps.map(({ engine }) => engine)), new Set([0, 1]))
  t.match(recording.engine, [
    { change: 'ready', engine: 0 },
    { change: 'ready', engine: 1 },
  ])
  const times = recording.steps.map(({ atMs }) => atMs)
  t.same(
    times,
    times.toSorted((a, b) => a - b),
  )

  const off = new FakeServer(clock, () => [1])
  const silent = new ClusterFront({ id: 'silent', bus: off.connect(), clock })
  const unrecorded = new SupervisedEngineClient({ start, clock, recorder: { windowMs: 0 } })
  for (const [id, own] of Object.entries({ off: unrecorded, none: engineOn(clock).client })) {
    const about = { info: await own.info(), clock, fingerprint: 'f', host: 'h' }
    await new WorkerHost({ id, bus: off.connect(), client: own, ...about }).start()
  }
  await silent.start()
  await after(600)
  await t.rejects(drive(clock, silent.client('fake').recording()), { code: 'unsupported' })
  await Promise.all([front.close(), silent.close()])
})

t.test('what has waited for workers is spread over all that come', async (t) => {
  const clock = new SimulatedClock()
  // Each worker is slower than the one before: the number of its link says which one it is.
  const numberOf = (text: string) => Number(/front\/(\d)/.exec(text)?.[1] ?? 1)
  const server = new FakeServer(clock, (text) => [50 * numberOf(text)])
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  const client = front.client('fake')
  const streams = Array.from({ length: 12 }, async (_, seed) => {
    const asked = { prompt: { text: `story ${seed}` }, maxTokens: 60, sampling: { seed } }
    return await said(client, asked)
  })
  const workers = await Promise.all(
    ['one', 'two', 'three'].map(async (id) => {
      const { engine, client } = engineOn(clock)
      const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
      const worker = new WorkerHost({ id, bus: server.connect(), client, ...about })
      await worker.start()
      return worker
    }),
  )
  const after = new Promise<void>((resolve) => void clock.at(1000, resolve))
  await drive(clock, after)
  t.same(
    workers.map(({ open }) => open),
    [4, 4, 4],
  )
  await drive(clock, Promise.all(streams))
  await front.close()
})

t.test('a call waits for a worker, as a request does', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const options = { patienceMs: 3000 }
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, options })
  await front.start()
  const client = front.client('fake')
  const early = client.tokenize('x')
  const { engine, client: own } = engineOn(clock)
  clock.at(1000, () => {
    const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
    void new WorkerHost({ id: 'one', bus: server.connect(), client: own, ...about }).start()
  })
  t.same(await drive(clock, early), await own.tokenize('x'))
  const directory = new ClusterDirectory(front, { chat: 'fake', '*': null, other: 'none' })
  t.equal(directory.nameOf('any'), 'fake', 'which is the default one')
  t.match(directory.status('chat'), { name: 'fake', state: 'loaded', aliases: ['chat'] })
  t.same(directory.status().aliases, ['chat'])

  const lonely = new ClusterFront({ id: 'lonely', bus: server.connect(), clock, options })
  const nobody = lonely.client('nobody')
  await t.rejects(drive(clock, nobody.tokenize('x')), { code: 'engine_unavailable' })
  const waiting = nobody.tokenize('x')
  void lonely.close()
  await t.rejects(drive(clock, waiting), { code: 'shutting_down' })
  await t.rejects(nobody.statistics(), { code: 'engine_unavailable' })
  await front.close()
})

t.test('a front that was stopped reads first what came meanwhile', async (t) => {
  // What it does first when it goes on: its timers, its envelopes, or what its clients ask.
  for (const first of ['timers', 'envelopes', 'requests']) {
    const clock = new SimulatedClock()
    const server = new FakeServer(clock, () => [1])
    // More workers than a request or a call may lose.
    for (let index = 10; index < 22; index++) {
      const { engine, client } = engineOn(clock, 200)
      const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
      const id = `worker-${index}`
      await new WorkerHost({ id, bus: server.connect(), client, ...about }).start()
    }
    const [own, bus] = [new StoppableClock(clock), server.connect()]
    // Links close in the order of the workers: each time it names the next one that goes.
    const router = (): RouterPolicy => ({ place: (_, [next]) => ({ worker: next!.id }) })
    const front = new ClusterFront({ id: 'front', bus, clock: own, router })
    await front.start()
    const client = front.client('fake')
    const asked = (seed: number): GenerateRequest => ({
      prompt: { text: `story ${seed}` },
      maxTokens: 60,
      sampling: { seed, temperature: 1 },
    })
    const expected = await drive(
      clock,
      Promise.all(
        [0, 1, 2, 3].map(async (seed) => await said(engineOn(clock).client, asked(seed))),
      ),
    )
    const after = async (ms: number) => await drive(clock, pause(clock, ms))
    await after(1000)
    const streams = [0, 1].map(async (seed) => await said(client, asked(seed)))
    await after(500)
    own.stop()
    bus.stop()
    await after(15_000)
    const calls: Promise<unknown>[] = []
    const parts = new Map([
      ['timers', () => own.goOn()],
      ['envelopes', () => bus.goOn()],
      [
        'requests',
        () => {
          streams.push(...[2, 3].map(async (seed) => await said(client, asked(seed))))
          calls.push(client.tokenize('x'))
        },
      ],
    ])
    parts.get(first)?.()
    for (const [name, run] of parts) if (name !== first) run()
    t.same(await drive(clock, Promise.all(streams)), expected, `${first} first`)
    t.same(await drive(clock, Promise.all(calls)), [await engineOn(clock).client.tokenize('x')])
    t.equal(client.workers.counts.placed, 6, 'what was under way moved once, the others not at all')
    await front.close()
  }
})

t.test('the time for which a front was stopped is no patience', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const [own, bus] = [new StoppableClock(clock), server.connect()]
  const options = { patienceMs: 4000 }
  const front = new ClusterFront({ id: 'front', bus, clock: own, options })
  await front.start()
  const client = front.client('fake')
  const asked = { prompt: { text: 'x' }, maxTokens: 5, sampling: { seed: 1 } }
  const both = Promise.all([client.tokenize('x'), said(client, asked)])
  const { engine, client: there } = engineOn(clock)
  const at = async (ms: number, run: () => void) => {
    await drive(clock, new Promise<void>((resolve) => void clock.at(ms, resolve)))
    run()
  }
  await at(1000, () => own.stop())
  await at(9000, () => own.goOn())
  await at(10_000, () => {
    const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
    void new WorkerHost({ id: 'one', bus: server.connect(), client: there, ...about }).start()
  })
  const expected = [await there.tokenize('x'), await drive(clock, said(there, asked))]
  t.same(await drive(clock, both), expected)

  const nobody = front.client('nobody')
  const late = Promise.allSettled([nobody.tokenize('x'), said(nobody, asked)])
  await at(clock.now() + 1000, () => own.stop())
  await at(clock.now() + 9000, () => own.goOn())
  const began = clock.now()
  for (const { status, reason } of (await drive(clock, late)) as PromiseRejectedResult[]) {
    t.match([status, reason], ['rejected', { code: 'engine_unavailable' }])
  }
  t.ok(
    clock.now() - began > 2400 && clock.now() - began < 3600,
    `it has the rest of its patience: ${clock.now() - began}`,
  )
  await front.close()
})

t.test('a batch runs where no client has anything, and makes room for them', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const [one, other] = await Promise.all(
    ['one', 'other'].map(async (id) => {
      const { engine, client } = engineOn(clock)
      const parts = { id, bus: server.connect(), client, info: engine.info(), clock }
      const worker = new WorkerHost({ ...parts, fingerprint: 'f', host: 'h' })
      await worker.start()
      return worker
    }),
  )
  const options = { patienceMs: 500 }
  const [here, there] = await Promise.all(
    ['a', 'b'].map(async (id) => {
      const front = new ClusterFront({
        id,
        bus: server.connect(),
        clock,
        router: byTenant,
        options,
      })
      await front.start()
      return front
    }),
  )
  const [lines, clients] = [here!.client('fake'), there!.client('fake')]
  const after = async (ms: number) => await drive(clock, pause(clock, ms))
  const prompt = { text: 'x' }
  const asked = { prompt, maxTokens: 200, sampling: { seed: 1 }, priority: batchPriority }
  const expected = await drive(clock, said(engineOn(clock).client, asked))
  const line = said(lines, asked)
  await after(300)
  t.same([one!.open, other!.open], [1, 0])
  const short = said(clients, { prompt, maxTokens: 20 })
  await after(60)
  t.same([one!.open, other!.open], [1, 1], 'the line is elsewhere')
  await drive(clock, short)
  const until = clock.now() + 3000
  const busy = ['0', '1', '0', '1'].map(async (tenant, index) => {
    const maxTokens = 90 + 7 * index
    while (clock.now() < until) await said(clients, { prompt, maxTokens, tenant })
  })
  await after(100)
  t.same([one!.open, other!.open], [2, 2], 'nowhere')
  await after(2000)
  t.same([one!.open, other!.open], [2, 2], 'for as long as it must')
  await drive(clock, Promise.all(busy))
  t.same(await drive(clock, line), expected, 'and goes on the same')
  await Promise.all([here!.close(), there!.close()])
})

t.test('tenants have equal shares of all workers together', async (t) => {
  const [shared, alone] = [await sharesOf(true), await sharesOf(false)]
  t.ok(jain(shared) >= 0.95, `Jain's index ${jain(shared).toFixed(3)}: ${shared.join()}`)
  t.ok(
    jain(alone) < jain(shared) - 0.05,
    `of workers that hear nothing of each other ${jain(alone).toFixed(3)}`,
  )
})

/** Jain's index of fairness: 1 when all have the same. */
function jain(shares: readonly number[]): number {
  const sum = shares.reduce((total, share) => total + share, 0)
  return sum ** 2 / (shares.length * shares.reduce((total, share) => total + share ** 2, 0))
}

/** The first tenant is on all workers in turns, each other one on two of them. */
function homes(): RouterPolicy {
  let turn = 0
  return {
    place({ tenant }, workers) {
      const number = Number(tenant.replace('tenant-', ''))
      turn++
      const place = number === 0 ? turn : number + (turn % 2)
      return { worker: workers[place % workers.length]!.id }
    },
  }
}

/** The worker of a tenant's number; the first one for requests without a tenant. */
function byTenant(): RouterPolicy {
  return {
    place: ({ tenant }, workers) => ({ worker: workers[Number(tenant) % workers.length]!.id }),
  }
}

/** Tokens that 10 tenants get of 8 workers in 2 s; the first one asks for ten times as much. */
async function sharesOf(isShared: boolean): Promise<number[]> {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock)
  for (let index = 0; index < 8; index++) {
    const backend = new FakeBackend({ clock, stepMs: () => 10 })
    const policy = createPolicy('continuous+fair')
    const engine = createEngine({ backend, policy, clock })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    if (!isShared) client.noteService = async () => {}
    const [bus, info] = [server.connect(), engine.info()]
    const parts = { id: `worker-${index}`, bus, client, info, clock, fingerprint: 'f', host: 'h' }
    await new WorkerHost(parts).start()
  }
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, router: homes })
  await front.start()
  const client = front.client('fake')
  const shares = Array.from({ length: 10 }, () => 0)
  const keepAsking = async (tenant: number): Promise<void> => {
    while (clock.now() < 2000) {
      const prompt = { text: `the story of ${tenant}` }
      const asked = { prompt, tenant: `tenant-${tenant}`, maxTokens: 20 }
      for await (const { type } of client.submit(asked)) {
        if (type === 'token' && clock.now() < 2000) shares[tenant]!++
      }
    }
  }
  const asking = shares.flatMap((_, tenant) =>
    Array.from({ length: tenant === 0 ? 100 : 10 }, async () => await keepAsking(tenant)),
  )
  await drive(clock, Promise.all(asking))
  await front.close()
  return shares
}

async function startOne(
  clock: SimulatedClock,
  server: FakeServer,
  id: string,
  model?: object,
  logger = silentLogger,
  contextSize = 256,
) {
  const { engine, client } = engineOn(clock, 10, contextSize)
  const info = engine.info()
  const its = { ...info, model: { ...info.model, ...model } }
  const bus = server.connect()
  const about = { info: its, clock, fingerprint: JSON.stringify(model ?? 'f'), host: 'h', logger }
  const worker = new WorkerHost({ id, bus, client, ...about })
  await worker.start()
  return { worker, bus, client }
}

const later = async (clock: SimulatedClock, ms: number) => await drive(clock, pause(clock, ms))

t.test('a worker that dies is lost once, however long the list still has it', async (t) => {
  const clock = new SimulatedClock()
  let isCut = false
  const server = new FakeServer(clock, () => (isCut ? [] : [1]))
  const lost: unknown[] = []
  const warn = (fields: object, message: string) =>
    void (message === 'a worker is lost' && lost.push(fields))
  const logger = { ...silentLogger, warn }
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, logger })
  const directory = new ClusterDirectory(front)
  await front.start()
  const mortal = await startOne(clock, server, 'mortal')
  const silent = await startOne(clock, server, 'silent')
  await later(clock, 1000)
  t.equal(front.client('fake').workers.members.length, 2)
  mortal.bus.die()
  isCut = true
  await later(clock, 2500)
  t.same(lost, [
    { worker: 'mortal', reason: 'it was silent for 2000 ms', requests: 0 },
    { worker: 'silent', reason: 'it was silent for 2000 ms', requests: 0 },
  ])
  isCut = false
  await later(clock, 10_000)
  t.equal(lost.length, 2)
  t.same(
    front.client('fake').workers.members.map(({ record }) => record.id),
    ['silent'],
    'one that lists itself again is used again',
  )
  const leaver = await startOne(clock, server, 'leaver')
  await later(clock, 1000)
  await drive(clock, leaver.worker.drain())
  await leaver.worker.close()
  await later(clock, 1000)
  t.equal(front.client('fake').workers.members.length, 1)
  t.equal(lost.length, 2, 'one that drains to its end is no loss')
  const asked = { prompt: { text: 'x' }, maxTokens: 60, sampling: { ignoreEos: true } }
  const stream = said(front.client('fake'), asked)
  await later(clock, 50)
  void silent.worker.drain()
  await later(clock, 50)
  silent.bus.die()
  await later(clock, 2500)
  t.match(lost.slice(2), [{ worker: 'silent', requests: 1 }], 'one that dies meanwhile is')
  const heir = await startOne(clock, server, 'heir')
  await drive(clock, stream)
  await heir.worker.close()
  await heir.client.close()
  t.match(directory.status(), { state: 'loaded' })
  await front.close()
  await mortal.client.close()
})

t.test('a prompt that is too long for one worker goes to one with a larger context', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const small = await startOne(clock, server, 'a-small')
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  await later(clock, 1000)
  const client = front.client('fake')
  const ask = async (tokens: number) =>
    await drive(clock, said(client, { prompt: { tokens: Array(tokens).fill(5) }, maxTokens: 2 }))
  await t.rejects(ask(300), { code: 'prompt_too_long', message: /a slot holds 256/ })
  const large = await startOne(clock, server, 'b-large', undefined, silentLogger, 512)
  await later(clock, 1500)
  for (let round = 0; round < 4; round++) t.ok((await ask(300)).length > 0)
  t.ok(client.workers.counts.placed > 5, 'some were at the small one first')
  await t.rejects(ask(600), { code: 'prompt_too_long', message: /a slot holds 512/ })
  await drive(clock, Promise.all([small, large].map(async ({ worker }) => await worker.close())))
  await front.close()
})

t.test('what only a larger worker takes waits for one, and no longer than all else', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const start = async (id: string, tokens: number) =>
    await startOne(clock, server, id, undefined, silentLogger, tokens)
  const small = await start('a-small', 256)
  const large = await start('b-large', 512)
  const router = (): RouterPolicy => ({ place: (_, all) => ({ worker: all.at(-1)!.id }) })
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, router })
  await front.start()
  await later(clock, 1000)
  const client = front.client('fake')
  const prompt = { tokens: Array.from({ length: 240 }, () => 5) }
  const asked = { prompt, maxTokens: 200, sampling: { seed: 1, ignoreEos: true } }
  const { worker, bus, client: own } = await start('c-alone', 512)
  const expected = await drive(clock, said(own, asked))
  await drive(clock, worker.close())
  bus.die()

  // It is drawn by the large one, which dies behind what a slot of the small one holds.
  const stream = said(client, asked)
  await later(clock, 1000)
  t.equal(large.worker.open, 1)
  void large.worker.drain({ migrate: true })
  await later(clock, 100)
  t.equal(large.worker.open, 1, 'it does not move to where it may not end')
  large.bus.die()
  await later(clock, 5000)
  const next = await start('b-next', 512)
  t.same(await drive(clock, stream), expected, 'a stream goes on at the next large one')

  // A line of a batch has been refused by the small one, and waits behind the clients of the large one.
  const long = { tokens: Array.from({ length: 300 }, () => 5) }
  const waiting = said(client, { ...asked, prompt: long })
  await later(clock, 500)
  const line = said(client, { prompt: long, maxTokens: 5, priority: batchPriority })
  await later(clock, 500)
  t.equal(next.worker.open, 1)
  next.bus.die()
  const both = await drive(clock, Promise.allSettled([waiting, line]))
  for (const { reason } of both as PromiseRejectedResult[]) {
    t.match(reason, { code: 'prompt_too_long' })
  }
  await drive(clock, small.worker.close())
  await front.close()
})

t.test('an embedding that is too long for one worker is made by a larger one', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const sizes = [256, 512]
  const workers = sizes.map(async (size) => {
    const one = await startOne(clock, server, `of ${size}`, undefined, silentLogger, size)
    one.client.embed = async (prompt) => {
      const { length } = 'tokens' in prompt ? prompt.tokens : []
      if (length > size) throw new CllmError('prompt_too_long', `${length} tokens, not ${size}`)
      return { vector: [size], promptTokens: length }
    }
    return one.worker
  })
  const all = await Promise.all(workers)
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  await later(clock, 1000)
  const embed = async (tokens: number) =>
    await drive(clock, front.client('fake').embed({ tokens: Array(tokens).fill(5) }))
  t.same(await embed(200), { vector: [256], promptTokens: 200 })
  t.same(await embed(300), { vector: [512], promptTokens: 300 })
  await t.rejects(embed(600), { code: 'prompt_too_long', message: '600 tokens, not 512' })
  await drive(clock, Promise.all(all.map(async (worker) => await worker.close())))
  await t.rejects(embed(300), { code: 'engine_unavailable' })
  await front.close()
})

t.test('a worker that cannot be listed says so once', async (t) => {
  const clock = new SimulatedClock()
  const told: string[] = []
  const logger = { ...silentLogger, warn: (_: object, text: string) => void told.push(text) }
  const { bus, worker, client } = await startOne(
    clock,
    new FakeServer(clock),
    'one',
    undefined,
    logger,
  )
  const announce = bus.announce.bind(bus)
  const unlisted = 'the worker cannot be listed in the cluster'
  for (const expected of [[unlisted], [unlisted, unlisted]]) {
    bus.announce = async () => await Promise.reject(new Error('the server has no memory left'))
    await later(clock, 5000)
    t.same(told, expected)
    bus.announce = announce
    await later(clock, 2000)
  }
  await worker.close()
  await client.close()
})

t.test('a worker that dies while the list is read is lost once, too', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const lost: string[] = []
  const warn = ({ worker }: { worker?: string }, message: string) =>
    void (message === 'a worker is lost' && lost.push(worker ?? ''))
  const bus = server.connect()
  const members = bus.members.bind(bus)
  bus.members = async (isKnown) => {
    const found = await members(isKnown)
    await pause(clock, 300)
    return found
  }
  const logger = { ...silentLogger, warn } as Logger
  const front = new ClusterFront({ id: 'front', bus, clock, logger })
  const ids = Array.from({ length: 8 }, (_, index) => `worker-${index}`)
  const workers = await Promise.all(ids.map(async (id) => await startOne(clock, server, id)))
  await drive(clock, front.start())
  await later(clock, 1000)
  for (const { bus: its, client } of workers) {
    its.die()
    await client.close()
    await later(clock, 100)
  }
  await later(clock, 9000)
  t.same(lost, ids)
  await front.close()
})

t.test('a worker knows what it has seen of a front that has linked anew', async (t) => {
  const clock = new SimulatedClock()
  const { client } = engineOn(clock)
  const sessions = new WorkerSessions({ client, slots: 4, clock, logger: silentLogger })
  const routed = { promptTokens: 1, blocks: [], blockTokens: 1 }
  for (const placement of [1, 2]) {
    const [here, there] = directLinks<ToWorker, FromWorker>(`front/${placement}`)
    sessions.accept('front', there)
    here.send({ type: 'place', placement, routed, request: { prompt: { text: 'x' } } })
  }
  await later(clock, 10)
  sessions.forget('front', 'front/1')
  t.same(sessions.load.seen, { front: 2 })
  sessions.forget('front', 'front/2')
  t.same(sessions.load.seen, {})
  sessions.close('the test is over')
  await drive(clock, client.close())
})

t.test('an answer of a worker that makes no sense fails its call alone', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const { engine, client } = engineOn(clock)
  client.programs = async () => []
  client.statistics = async () => null as never
  const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
  const worker = new WorkerHost({ id: 'one', bus: server.connect(), client, ...about })
  await worker.start()
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await drive(clock, front.start())
  await later(clock, 1000)
  const remote = front.client(engine.info().model.id)
  const [asked] = await drive(clock, Promise.allSettled([remote.statistics()]))
  t.match(asked, { status: 'rejected' }, 'and nothing is thrown to who hands it over')
  t.same(await drive(clock, remote.programs()), [])

  const newer = Object.assign(new CllmError('internal', 'said tomorrow'), { code: 'of_tomorrow' })
  client.tokenize = async () => await Promise.reject(newer)
  client.submit = async function* () {
    yield await Promise.reject(newer)
  }
  const both = [remote.tokenize('x'), said(remote, { prompt: { text: 'x' } })]
  for (const one of await drive(clock, Promise.allSettled(both))) {
    t.match(one, { reason: { code: 'internal', message: 'said tomorrow' } }, 'of a newer version')
  }
  await drive(clock, front.close())
  await drive(clock, worker.close())
  await drive(clock, client.close())
})

t.test(
  'a request that comes now waits for as long as at the worker where it waits least',
  async (t) => {
    const clock = new SimulatedClock()
    const server = new FakeServer(clock, () => [1])
    const waits: Record<string, number | undefined> = { one: 900, two: 400, old: undefined }
    const workers = new Map<string, WorkerHost>()
    for (const [id, waitMs] of Object.entries(waits)) {
      const { engine, client } = engineOn(clock)
      const answer = client.statistics.bind(client)
      client.statistics = async () => {
        const { waitMs: _, ...rest } = await answer()
        return waitMs === undefined ? rest : { ...rest, waitMs }
      }
      const about = { info: engine.info(), clock, fingerprint: 'f', host: 'h' }
      const worker = new WorkerHost({ id, bus: server.connect(), client, ...about })
      await worker.start()
      workers.set(id, worker)
    }
    const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
    await front.start()
    const client = front.client('fake')
    await later(clock, 600)
    t.equal((await drive(clock, client.statistics())).waitMs, 400)
    void workers.get('two')!.drain()
    await later(clock, 10)
    t.equal((await drive(clock, client.statistics())).waitMs, 900, 'it takes no requests')
    void workers.get('one')!.drain()
    await later(clock, 10)
    t.notOk('waitMs' in (await drive(clock, client.statistics())), 'nobody says it')
    await front.close()
  },
)

t.test(
  'a router that answers what cannot be done is logged, and the first worker is taken',
  async (t) => {
    const answers: [string, RegExp, () => unknown][] = [
      ['nothing', /instead got undefined/, () => undefined],
      ['no field', /instead got {}/, () => ({})],
      ['a worker that is not there', /{ worker: no }/, () => ({ worker: 'no' })],
      ['no number', /{ holdMs: NaN }/, () => ({ holdMs: NaN })],
      ['no reason', /{ refuse: {2}}/, () => ({ refuse: '' })],
      ['a promise', /a promise/, () => Promise.reject(new Error('late'))],
    ]
    for (const [what, message, place] of answers) {
      const clock = new SimulatedClock()
      const server = new FakeServer(clock, () => [1])
      await startOne(clock, server, 'one')
      const failures: { err: Error }[] = []
      const error = (fields: object) => void failures.push(fields as { err: Error })
      const front = new ClusterFront({
        id: 'front',
        bus: server.connect(),
        clock,
        router: () => ({ place }) as RouterPolicy,
        logger: { ...silentLogger, error },
      })
      await front.start()
      await later(clock, 600)
      const events = await drive(
        clock,
        said(front.client('fake'), { prompt: { text: 'x' }, maxTokens: 2 }),
      )
      t.match(events.at(-1), ['length', '', 2], what)
      t.match(failures, [{ err: { message } }])
      t.equal(failures.length, 1)
      await front.close()
    }
  },
)

t.test('what no process of the cluster can have written is refused', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const { worker, client: alone } = await startOne(clock, server, 'one')
  const stranger = server.connect()
  const records = ['no JSON', 'null', '{}', '{"kind":"worker","id":"other","protocol":2}']
  for (const [index, record] of records.entries()) {
    await stranger.announce(`stranger-${index}`, record, 60_000)
  }
  await stranger.announce(
    'hollow',
    `{"kind":"worker","id":"hollow","protocol":${protocol}}`,
    60_000,
  )
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  const client = front.client('fake')
  const asked = { prompt: { text: 'x' }, maxTokens: 40, sampling: { seed: 1 }, progress: true }
  const types: string[] = []
  const stream = (async () => {
    for await (const { type } of client.submit(asked)) types.push(type)
  })()
  await later(clock, 300)
  const link = `[${protocol},"front/1",`
  const toFront = [
    'no JSON',
    '{"l":"front/1","n":7,"b":{"type":"events","events":[]}}',
    `[${protocol + 1},"front/1",7]`,
    `[${protocol},"front/7",1]`,
    `[${protocol},{"order":"drain"}]`,
    ...[
      '[1]',
      '["1",2,"x"]',
      '[1,2]',
      '[1,{"type":"explode"}]',
      '[1,null]',
      '[1,{"type":"end","text":"x"}]',
      '[1,{"type":"error"}]',
      '[1,{"type":"token","token":"x"}]',
      '7',
      '{"type":"report"}',
      '{"type":"report","state":"up","clients":0,"report":{"slots":1}}',
      '{"type":"result","call":-1}',
      '{"type":"error","call":1}',
      '{"type":"toString"}',
      '{"type":"__proto__"}',
    ].map((message) => `${link}99,${message}]`),
  ]
  for (const envelope of toFront) stranger.send('front:front', envelope)
  const toWorker = [
    `[${protocol},"front/9",1,{"type":"hello"}]`,
    `[${protocol},"front/9",1,{"type":"cancel","placement":1}]`,
    ...[
      '{"type":"place","placement":1}',
      '{"type":"place","placement":1,"routed":{"promptTokens":1,"blockTokens":1,"blocks":[]}}',
      '{"type":"cancel","placement":1,"reason":7}',
      '{"type":"served","services":[7]}',
      '{"type":"leave"}',
      '{"type":"call","call":1,"name":7,"arguments":[]}',
    ].map((message) => `${link}99,${message}]`),
  ]
  for (const envelope of toWorker) stranger.send('worker:one', envelope)
  await later(clock, 10)
  await drive(clock, stream)
  t.equal(front.refusedMessages, toFront.length)
  t.equal(worker.refusedMessages, toWorker.length)
  const expected: string[] = []
  const undisturbed = alone.submit({ ...asked, id: 'again' })
  await drive(
    clock,
    (async () => {
      for await (const { type } of undisturbed) expected.push(type)
    })(),
  )
  t.same(types, expected)
  t.ok(types.includes('progress'), 'what is computed of a prompt is told, too')
  const members = client.workers.members.map(({ record }) => record.id)
  t.same(members, ['one'], 'nor is a list of members believed')

  // A front of another program may know how to write envelopes, and not what a worker does.
  const other = server.connect()
  const heard: string[] = []
  other.listen('front:other', (envelope) => heard.push(envelope))
  for (const [index, message] of [
    { type: 'hello', front: 'other' },
    { type: 'call', call: 1, name: 'onState', arguments: [7] },
    { type: 'call', call: 2, name: 'drain', arguments: [] },
    {
      type: 'place',
      placement: 1,
      routed: { promptTokens: 1, blockTokens: 1, blocks: [] },
      request: { prompt: { text: 7 } },
    },
  ].entries()) {
    other.send('worker:one', JSON.stringify([protocol, 'other/1', index + 1, message]))
  }
  await later(clock, 100)
  t.match(heard.join(), /"call":1.*"call":2/s)
  t.match(heard.join(), /"type":"error"/)
  t.equal(worker.open, 0)
  await front.close()
})

t.test('fronts and workers of other versions leave each other alone', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const old = server.connect()
  const early: string[] = []
  old.listen('worker:old', (envelope) => early.push(envelope))
  const info = engineOn(clock).engine.info()
  const record = { kind: 'worker', id: 'old', state: 'up', info, host: 'h' }
  await old.announce('old', JSON.stringify(record), 600_000)
  const next = { ...record, id: 'next', protocol: protocol + 1, info: { model: 7 } }
  await old.announce('next', JSON.stringify(next), 600_000)
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  const directory = new ClusterDirectory(front)
  t.throws(() => directory.open(), { code: 'engine_unavailable', message: /no worker yet/ })
  await front.start()
  t.match(front.incompatible, [
    { id: 'old', protocol: 1, model: 'fake' },
    { id: 'next', protocol: protocol + 1, model: '' },
  ])
  t.same(directory.list(), ['fake'])
  const refused = {
    code: 'cluster_unavailable',
    message: `No worker can be used: the worker old speaks the cluster protocol 1, this front ${protocol}`,
  }
  t.match(directory.status('fake').error, refused)
  t.throws(() => directory.open('fake'), refused)
  t.match(
    whyIncompatible(front.incompatible),
    `2 workers speak the cluster protocol 1, ${protocol + 1}`,
  )

  const { worker } = await startOne(clock, server, 'one')
  await later(clock, 1000)
  t.match(directory.status('fake'), { state: 'loaded', error: undefined })
  const client = front.client('fake')
  const story = { prompt: { text: 'x' }, sampling: { ignoreEos: true } }
  t.equal((await drive(clock, said(client, { ...story, maxTokens: 3 }))).length, 4)
  const { workers } = await drive(clock, client.statistics())
  t.match(workers?.list, [
    { id: 'one', state: 'up' },
    { id: 'old', state: 'incompatible', slots: 0, open: 0 },
  ])
  t.same(early, [], 'nothing is sent to what would not understand it')
  old.send('worker:one', '{"l":"old/1","n":1,"b":{"type":"hello","front":"old"}}')
  old.send('worker:one', `[${protocol + 1},"next/1",1,{"type":"hello","front":"next"}]`)
  await later(clock, 10)
  t.equal(worker.refusedMessages, 2)
  await old.withdraw('old')
  await later(clock, 1000)
  t.same(
    front.incompatible.map(({ id }) => id),
    ['next'],
  )
  await front.close()
})

t.test('a stream goes on nowhere where its tokens mean something else', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const { bus } = await startOne(clock, server, 'one')
  const options = { patienceMs: 3000 }
  const warned: unknown[] = []
  const logger = { ...silentLogger, warn: (_: object, text: string) => void warned.push(text) }
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, logger, options })
  await front.start()
  const client = front.client('fake')
  const asked = { prompt: { text: 'x' }, maxTokens: 200, sampling: { seed: 1, ignoreEos: true } }
  const stream = said(client, asked)
  await later(clock, 300)
  await startOne(clock, server, 'two', { vocabularySize: 7 })
  await later(clock, 600)
  t.same(warned, ['workers serve different models under one name'])
  bus.die()
  await t.rejects(drive(clock, stream), { code: 'engine_unavailable' })
  t.equal((await drive(clock, said(client, { ...asked, maxTokens: 5 }))).length, 6, 'new ones do')
  await front.close()
})

t.test('of a request that has ended a front keeps no prompt', (t) => {
  const clock = new SimulatedClock()
  const members = new Members('front', clock)
  const info = { limits: { contextSize: 256 } }
  const [link] = directLinks<ToWorker, FromWorker>('link')
  const member = members.add({ id: 'worker', info, state: 'up' } as WorkerRecord, link)
  const load = { open: 0, openTokens: 0, backlogTokens: 0, backlogPairs: 0, chains: [], seen: {} }
  const report = { slots: 1, ...load }
  members.onReport(member, { type: 'report', state: 'up', report, clients: 0 })
  const placing = new Placing({
    members,
    clock,
    router: createRouter(),
    random: systemRandom,
    logger: silentLogger,
    sleep: sleepless,
    options: defaultPlacingOptions,
    publish() {},
  })
  placing.submit('one', { prompt: { text: 'long' } })
  placing.submit('two', { prompt: { text: 'long' } })
  const there = { worker: 'worker', placement: 1, moves: 0 }
  t.same(placing.find('one'), there)
  t.same([...member.requests.keys()], [1, 2])
  placing.onEvents(member, [1, failureOf(new CllmError('internal', 'It failed'))])
  t.same(placing.find('one'), there)
  t.same([...member.requests.keys()], [2])
  placing.failAll(new CllmError('shutting_down', 'The end'))
  t.same(placing.find('two'), { worker: undefined, placement: undefined, moves: 0 })
  t.equal(member.requests.size, 0)
  t.equal(placing.find('three'), undefined)
  t.end()
})

t.test('an image is some tokens of a prompt, however large its file is', (t) => {
  const routed = (data: string, more: object[] = []) => {
    const media = [{ type: 'image', at: 0, data }]
    const messages = [{ role: 'user', content: 'What is it?', media }, ...more]
    const request = { prompt: { messages } } as unknown as GenerateRequest
    return new PlacedRequest('one', request, 0.25, new SimulatedClock()).routed
  }
  const [small, large] = [routed('a'), routed('b'.repeat(1e6))]
  t.equal(large.promptTokens, small.promptTokens)
  t.ok(large.promptTokens > 256 && large.promptTokens < 320, `${large.promptTokens}`)
  t.not(large.blocks[0], small.blocks[0])
  const next = routed('a', [{ role: 'assistant', content: 'x'.repeat(400) }])
  t.same(next.blocks.slice(0, small.blocks.length), small.blocks, 'it goes on')
  t.same(next.files, small.files)
  t.ok(next.files[0]! < next.blocks.length * next.blockTokens, 'who holds it has the image')
  const media = [{ type: 'image' as const, at: 1, data: 'a' }]
  const request = { prompt: { text: 'xy', media } }
  const text = new PlacedRequest('two', request, 0.25, new SimulatedClock())
  t.match(text.routed, { promptTokens: 257, files: [256.25] })
  t.equal(text.characters, 0, 'nothing is learnt from it')
  t.end()
})

t.test('requests with images are spread by how many of them wait', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  for (const id of ['one', 'two']) await startOne(clock, server, id)
  const seen: (readonly number[])[] = []
  const router = (): RouterPolicy => ({
    place: ({ files }, views) => {
      seen.push([files.length, ...views.map(({ backlogFiles }) => backlogFiles)])
      return { worker: views[0]!.id }
    },
  })
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, router })
  await front.start()
  const client = front.client('fake')
  await later(clock, 600)
  const media = [{ type: 'image' as const, at: 0, data: 'a' }]
  const first = said(client, { prompt: { text: 'x', media }, maxTokens: 1 })
  const second = said(client, { prompt: { text: 'y' }, maxTokens: 1 })
  await drive(clock, Promise.allSettled([first, second]))
  t.same(seen, [
    [1, 0, 0],
    [0, 1, 0],
  ])
  await later(clock, 2000)
  await drive(clock, said(client, { prompt: { text: 'z' }, maxTokens: 1 }))
  t.same(seen[2], [0, 0, 0], 'the worker says that none is left')
  await front.close()
})

t.test('a worker that stands still or is gone takes no figures with it', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const workers = [await startOne(clock, server, 'one'), await startOne(clock, server, 'two')]
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  const client = front.client('fake')
  await later(clock, 600)
  const sampling = { seed: 1, ignoreEos: true }
  const asked = { prompt: { text: 'x' }, maxTokens: 30, sampling }
  await drive(clock, Promise.all([1, 2, 3, 4].map(async () => await said(client, asked))))
  t.equal(server.recordsRead, 2, 'each one is read once')
  const all = await drive(clock, client.statistics())
  t.match(all, { generatedTokens: 120, requests: { done: 4 } })
  t.ok(workers.every(({ worker }) => worker.open === 0))

  const [one, two] = workers as [(typeof workers)[0], (typeof workers)[0]]
  const answer = one.client.statistics.bind(one.client)
  one.client.statistics = async () => await new Promise(() => {})
  const before = clock.now()
  const partial = await drive(clock, client.statistics())
  t.ok(clock.now() - before <= 1100, `${clock.now() - before} ms`)
  t.equal(partial.generatedTokens, 120, 'it is as it was')
  t.same(partial.workers?.list.map(({ id }) => id).sort(), ['one', 'two'])
  one.client.statistics = answer

  one.bus.die()
  await later(clock, 9000)
  const left = await drive(clock, client.statistics())
  t.same(
    left.workers?.list.map(({ id }) => id),
    ['two'],
  )
  t.match(left, { generatedTokens: 120, requests: { done: 4 }, running: 0 })
  t.equal(left.slots.length, all.slots.length / 2)

  const three = await startOne(clock, server, 'three')
  await later(clock, 600)
  await drive(clock, client.statistics())
  await drive(clock, Promise.all([1, 2, 3, 4].map(async () => await said(client, asked))))
  const own = two.client.statistics.bind(two.client)
  two.client.statistics = async () => await new Promise(() => {})
  const open = client.statistics()
  await later(clock, 100)
  await drive(clock, three.worker.close())
  const between = await drive(clock, open)
  t.ok(between.generatedTokens > 120, 'it has an answer of the one that is gone')
  two.client.statistics = own
  const last = await drive(clock, client.statistics())
  t.equal(last.generatedTokens, 240, 'it answered before it went')
  void two.worker.drain()
  await front.close()
})

t.test('a worker that comes back counts once', (t) => {
  const last = new LastStatistics()
  const statistics = (generatedTokens: number) =>
    ({ generatedTokens, running: 1, slots: [{}] }) as unknown as EngineStatistics
  last.set('a', statistics(5))
  last.lose('a')
  last.lose('unknown')
  t.match(last.gone, [{ generatedTokens: 5, running: 0, slots: [] }])
  last.set('a', statistics(6))
  t.same(last.gone, [])
  for (let index = 0; index < 200; index++) {
    last.set(`w${index}`, statistics(1))
    last.lose(`w${index}`)
  }
  t.equal(last.gone.length, 101)
  const sum = (of: LastStatistics) => of.gone.reduce((all, one) => all + one.generatedTokens, 0)
  t.equal(sum(last), 200)

  const many = new LastStatistics()
  const ids = Array.from({ length: 150 }, (_, index) => `w${index}`)
  for (const id of ids) many.set(id, statistics(1))
  for (const id of ids) many.lose(id)
  t.equal(sum(many), 150)
  for (const id of ids) many.set(id, statistics(1))
  t.same(many.gone, [], 'all come back')
  t.end()
})

t.test(
  'the longest pause of several workers is the longest of them, also when one is lost',
  (t) => {
    const statistics = (longestPauseMs: number) =>
      ({ slots: [], cache: { ram: {}, longestPauseMs } }) as unknown as EngineStatistics
    const [one, two] = [statistics(300), statistics(500)]
    t.equal(mergeStatistics([one, two], []).cache?.longestPauseMs, 500)
    const last = new LastStatistics()
    last.set('two', two)
    last.lose('two')
    t.equal(mergeStatistics([one, ...last.gone], []).cache?.longestPauseMs, 500)
    const activities = [one, two].map((each) => ({ ...each, now: 1, queue: [], frames: [] }))
    const { cache } = mergeActivities(activities as unknown as EngineActivity[], 1)
    t.equal(cache?.longestPauseMs, 500)
    t.end()
  },
)

t.test('tenants may have any names', (t) => {
  const activity = (tenants: Record<string, number>) => {
    const steps = { count: 1, ms: 1 }
    const lists = { spans: [], itl: [[1, 1]], firstTokensMs: [], ended: [] }
    const frame = { atMs: 1, untilMs: 2, steps, tenants, ...lists }
    return { now: 1, slots: [], queue: [], frames: [frame] } as unknown as EngineActivity
  }
  const all = [
    activity({ bounds: 1, counts: 2, constructor: 3 }),
    activity({ bounds: 4, counts: 5 }),
  ]
  const [frame] = mergeActivities(all, 1).frames
  t.strictSame(frame?.tenants, { bounds: 5, counts: 7, constructor: 3 })
  t.match(frame, { steps: { count: 2, ms: 2 }, itl: [[1, 2]] })
  t.end()
})

t.test('what is too large for an envelope is no load of the worker it was meant for', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  for (const id of ['one', 'two']) await startOne(clock, server, id)
  let loads: number[][] = []
  const router = (): RouterPolicy => ({
    place: (_, views) => {
      loads = views.map(({ open, openTokens, backlogTokens }) => [open, openTokens, backlogTokens])
      return { worker: views[0]!.id }
    },
  })
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock, router })
  await front.start()
  const client = front.client('fake')
  await later(clock, 600)
  const large = { prompt: { text: 'x'.repeat(65 * 2 ** 20) } }
  await t.rejects(drive(clock, said(client, large)), { code: 'body_too_large' })
  t.equal(client.workers.counts.placed, 0)
  await later(clock, 2000)
  await drive(clock, said(client, { prompt: { text: 'x' }, maxTokens: 1 }))
  t.same(loads, [
    [0, 0, 0],
    [0, 0, 0],
  ])
  await front.close()
})

t.test('what is too large for an envelope fails alone', async (t) => {
  const clock = new SimulatedClock()
  const server = new FakeServer(clock, () => [1])
  const { client: own } = await startOne(clock, server, 'one')
  const tooMuch = 'x'.repeat(65 * 2 ** 20)
  const submit = own.submit.bind(own)
  own.submit = async function* (asked, options) {
    for await (const event of submit(asked, options)) {
      const isLarge = asked.tenant === 'large' && event.type === 'token'
      yield isLarge ? { ...event, text: tooMuch } : event
    }
  }
  own.tokenize = async () => tooMuch as unknown as number[]
  const front = new ClusterFront({ id: 'front', bus: server.connect(), clock })
  await front.start()
  const client = front.client('fake')
  await later(clock, 600)
  const asked = { prompt: { text: 'x' }, maxTokens: 60, sampling: { seed: 1, ignoreEos: true } }
  const undisturbed = await drive(clock, said(client, asked))
  const stream = said(client, asked)
  await later(clock, 50)
  await t.rejects(drive(clock, client.tokenize('x')), { code: 'unsupported' })
  const large = drive(clock, said(client, { ...asked, tenant: 'large' }))
  await t.rejects(large, { code: 'unsupported' })
  await t.rejects(drive(clock, said(client, { prompt: { text: tooMuch } })), {
    code: 'body_too_large',
  })
  // How deep a value may be nested depends on the version of V8.
  const tooDeep = { toJSON: () => JSON.stringify(tooDeep) }
  const constraint = { type: 'json-schema', schema: { x: tooDeep } } as const
  await t.rejects(drive(clock, said(client, { ...asked, sampling: { constraint } })), {
    code: 'body_too_large',
  })
  t.same(await drive(clock, stream), undisturbed)
  t.equal(client.workers.counts.movedExactly, 0)
  t.equal(front.refusedMessages, 0)
  await front.close()
})
