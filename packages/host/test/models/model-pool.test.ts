import { getEventListeners } from 'node:events'
import {
  batchPriority,
  CllmError,
  createEngine,
  type EngineOptions,
  type GenerateRequest,
  lru,
  nextNumber,
  type ModelDecision,
  type ModelScheduler,
  type ModelView,
  PluginRegistry,
  SimulatedClock,
} from '@cllm/core'
import {
  createServer,
  LocalEngineClient,
  type LoadedModel,
  ModelPool,
  type ModelPoolParts,
  type LoadableModel,
  overriding,
} from '@cllm/host'
import { PooledModel } from '../../src/models/pooled-model.js'
import { drive, FakeBackend, runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { collect, counting, greedy, loggerOf } from '../../../core/test/rig.js'

const loadMs = 1000

/** A model whose load takes a second, and that remembers what happened to it. */
class FakeModel implements LoadableModel {
  loads = 0
  closes = 0
  /** What the next loads fail with, one by one. */
  readonly failures: CllmError[] = []
  readonly heldBytes: number[] = []
  /** Of the last load, which does not heed it. */
  signal: AbortSignal | undefined
  die: (reason: string) => void = () => {}

  constructor(
    readonly name: string,
    private readonly rig: { readonly clock: SimulatedClock; inMemory: string[] },
    private readonly more: {
      readonly memoryBytes?: number
      readonly keepAliveMs?: number
      readonly options?: Partial<EngineOptions>
      readonly slots?: number
    } = {},
  ) {}

  get keepAliveMs(): number {
    return this.more.keepAliveMs ?? Infinity
  }

  async load({ heldBytes, signal }: Parameters<LoadableModel['load']>[0]): Promise<LoadedModel> {
    this.loads++
    this.signal = signal
    this.heldBytes.push(heldBytes)
    const { clock } = this.rig
    await new Promise<void>((resolve) => clock.at(clock.now() + loadMs, resolve))
    const failure = this.failures.shift()
    if (failure !== undefined) throw failure
    this.rig.inMemory.push(this.name)
    const { slots = 4, options = {} } = this.more
    const backend = new FakeBackend({ id: this.name, slots, clock, stepMs: () => 10 })
    const policy = firstComeFirstServed
    const engine = createEngine({ backend, policy, clock, random: counting(), options })
    const registry = new PluginRegistry()
    const create = () => ({ ...firstComeFirstServed, name: 'other' })
    registry.registerPolicy({ name: 'other', doc: 'Another one.', create })
    const client = new LocalEngineClient(engine, registry, counting())
    return {
      client,
      memoryBytes: this.more.memoryBytes ?? 0,
      gone: new Promise((resolve) => (this.die = resolve)),
      close: async () => {
        this.closes++
        await client.close()
        this.rig.inMemory = this.rig.inMemory.filter((name) => name !== this.name)
      },
    }
  }
}

type More = ConstructorParameters<typeof FakeModel>[2]

function pooled(
  options: ModelPoolParts['options'],
  models: Readonly<Record<string, More>>,
  decide: ModelScheduler['decide'] = (...views) => lru.create({}).decide(...views),
) {
  const rig = { clock: new SimulatedClock(1000), inMemory: [] as string[] }
  const { clock } = rig
  const entries = Object.entries(models).map(([name, more]) => new FakeModel(name, rig, more))
  const { errors, logger } = loggerOf()
  const scheduler = { name: 'lru', policy: { decide } }
  const pool = new ModelPool({
    models: entries,
    clock,
    logger,
    scheduler,
    ...(options && { options }),
  })
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const request = (tokens = 3): GenerateRequest => greedy([5, 6, 7], tokens)
  const ask = (name: string, tokens?: number) => collect(pool.open(name).submit(request(tokens)))
  return {
    clock,
    pool,
    run,
    errors,
    ask,
    request,
    inMemory: () => rig.inMemory,
    models: Object.fromEntries(entries.map((model) => [model.name, model])) as Record<
      string,
      FakeModel
    >,
    settle: async (milliseconds = 0) => await runUntilIdle(clock, clock.now() + milliseconds),
  }
}

t.test('the first use loads a model, and simultaneous uses load it once', async (t) => {
  const { pool, run, ask, models, clock, inMemory } = pooled({}, { a: {}, b: {} })
  t.same(pool.list(), ['a', 'b'])
  t.match(pool.status('a'), { state: 'unloaded', info: undefined, users: 0 })
  const answers = [ask('a'), ask('a', 5), ask('a')]
  const info = pool.open().info()
  t.match(pool.status('a'), { state: 'loading', waiting: 4 })
  const [one, two] = await run(Promise.all(answers))
  t.equal(one?.tokens.length, 3)
  t.equal(two?.tokens.length, 5)
  t.match(await run(info), { model: { id: 'a' } })
  t.equal(models['a']?.loads, 1)
  t.ok((one?.end?.timings.firstTokenMs ?? 0) > loadMs, 'the wait for the load counts')
  t.match(pool.status('a'), { state: 'loaded', users: 0, info: { model: { id: 'a' } } })
  t.same(inMemory(), ['a'], 'nobody asked for the other')

  const before = clock.now()
  t.equal((await run(ask('a'))).tokens.length, 3)
  t.ok(clock.now() - before < loadMs)
  t.throws(() => pool.open('c'), {
    code: 'model_not_found',
    message: 'model: expected one of a, b, instead got "c"',
  })
})

t.test('who leaves during a load does not end it for the others', async (t) => {
  const { pool, run, request, models, settle, ask } = pooled({}, { a: {}, b: {} })
  const leaving = new AbortController()
  const left = collect(pool.open('a').submit(request(), { signal: leaving.signal }))
  const byId = collect(pool.open('a').submit({ ...request(), id: 'x' }))
  const broken = pool.open('a').submit(request())
  const reading = broken.next()
  const short = collect(pool.open('a').submit({ ...request(), timeoutMs: 500 }))
  const stays = ask('a')
  leaving.abort()
  pool.open('a').cancel('x')
  t.match((await left).error, { code: 'cancelled' })
  t.match((await byId).error, { code: 'cancelled' })
  t.same(await broken.return?.(), { done: true, value: undefined })
  t.same(await reading, { done: true, value: undefined })
  t.match(pool.status('a'), { state: 'loading', waiting: 2 })
  t.match((await run(short)).error, { code: 'timeout' })
  t.equal((await run(stays)).tokens.length, 3)
  t.equal(models['a']?.loads, 1)

  const alone = new AbortController()
  const only = collect(pool.open('b').submit(request(), { signal: alone.signal }))
  alone.abort()
  t.match((await only).error, { code: 'cancelled' })
  await settle(loadMs)
  t.equal(pool.status('b').state, 'loaded', 'what was loaded stays for the next')
})

t.test('a policy that was set is that of the engines after it, too', async (t) => {
  const { pool, run } = pooled({}, { a: {} })
  const client = pool.open('a')
  await t.rejects(run(client.setScheduler('none')), { code: 'invalid_policy' })
  t.match(await run(client.setScheduler('other')), { policy: 'other' })
  await t.rejects(run(client.setScheduler('none')), { code: 'invalid_policy' })
  await run(pool.unload('a'))
  t.match(await run(client.getScheduler()), { policy: 'other' })
  t.match(pool.status('a').scheduler, { policy: firstComeFirstServed.name }, 'what it starts with')
})

t.test('the least recently used one makes room, and two waiters cost one eviction', async (t) => {
  const three = { a: {}, b: {}, c: {} }
  const { run, ask, models, inMemory } = pooled({ maxLoaded: 2 }, three)
  for (const name of ['a', 'b', 'a']) await run(ask(name))
  await run(Promise.all([ask('c'), ask('c')]))
  t.same(inMemory(), ['a', 'c'])
  t.equal(models['b']?.closes, 1)
  t.equal(models['a']?.closes, 0)
})

t.test('a model in use is never unloaded, and no model waits forever', async (t) => {
  const { pool, run, ask, models, settle, inMemory } = pooled({ maxLoaded: 1 }, { a: {}, b: {} })
  const long = ask('a', 100)
  await settle(loadMs + 500)
  const other = ask('b')
  const later = ask('a')
  await settle(300)
  t.same(inMemory(), ['a'])
  t.match(pool.status('a'), { users: 1, waiting: 1 }, 'who comes later waits behind')
  t.equal((await run(long)).tokens.length, 100)
  t.equal((await run(other)).tokens.length, 3)
  t.equal((await run(later)).tokens.length, 3)
  t.same([models['a']?.loads, models['b']?.loads], [2, 1])

  const leaving = new AbortController()
  const busy = ask('a', 50)
  const gone = collect(pool.open('b').submit(greedy([5], 1), { signal: leaving.signal }))
  const behind = ask('a')
  leaving.abort()
  t.match((await gone).error, { code: 'cancelled' })
  t.equal((await run(behind)).tokens.length, 3)
  t.equal((await run(busy)).tokens.length, 50)
  t.equal(models['a']?.loads, 2, 'nobody wants the room any more')
})

t.test('one piece of work keeps its model through all its calls', async (t) => {
  const { pool, run, ask, models } = pooled({ maxLoaded: 1 }, { a: {}, b: {} })
  const work = new AbortController()
  const client = pool.open('a', { until: work.signal })
  await run(client.info())
  const other = ask('b')
  await run(client.tokenize('once'))
  t.equal((await run(collect(client.submit(greedy([5], 3))))).tokens.length, 3)
  t.match(pool.status('a'), { state: 'loaded', users: 1 })
  work.abort()
  await run(other)
  t.equal(models['a']?.loads, 1)
  await t.rejects(client.tokenize('late'), { code: 'cancelled' })
  t.match((await collect(client.submit(greedy([5], 3)))).error, { code: 'cancelled' })
  t.match(pool.status('b'), { users: 0 })
})

t.test(
  'a batch that gives way to clients holds no model that theirs has to wait for',
  async (t) => {
    const { pool, run, ask, models } = pooled({ maxLoaded: 1 }, { a: {}, b: {} })
    const until = new AbortController().signal
    const listeners = () => getEventListeners(until, 'abort').length
    const line = pool.open('a', { until, urgency: { priority: batchPriority } })
    await run(line.tokenize('once'))
    const events = line.submit(greedy([5], 9))
    await run(events.next())
    void events.return?.()
    t.equal((await run(ask('b'))).tokens.length, 3)
    t.equal((await run(collect(line.submit(greedy([5], 9))))).tokens.length, 9, 'it goes on')
    t.same([models['a']?.loads, pool.status('a').users], [2, 0])
    t.equal(listeners(), 0, 'and its signal, which may live for days, keeps nothing')
  },
)

t.test('a batch that is cancelled waits for no model', async (t) => {
  const { pool, run, ask, models } = pooled({ maxLoaded: 1 }, { a: {}, b: {} })
  await run(ask('b'))
  const other = ask('b', 20)
  const batch = new AbortController()
  const line = pool.open('a', { until: batch.signal, urgency: { priority: batchPriority } })
  const waiting = t.rejects(line.applyTemplate([]), { code: 'cancelled' })
  batch.abort()
  await run(Promise.all([waiting, other]))
  t.same([models['a']?.loads, models['b']?.loads], [0, 1])
})

t.test('what a model loses is to be computed again, or read where it is saved', async (t) => {
  const lostMs = async (cache?: object): Promise<number> => {
    const source = { name: 'a', load: () => Promise.reject(new Error('unused')) }
    const model = new PooledModel(source, new SimulatedClock())
    model.loadMs = 700
    const slots = [{ tokens: 300 }, { tokens: 100 }]
    const statistics = async () => ({ slots, prefillMs: 1000, prefillTokens: 100, cache })
    const loaded = (model.loaded = { client: { statistics } } as unknown as LoadedModel)
    await model.measure(loaded)
    return model.lostMs
  }
  t.equal(await lostMs(), 4000)
  t.equal(await lostMs({ ram: {} }), 4000)
  t.equal(await lostMs({ disk: { loadMs: 50, hitTokens: 1000 } }), 20)
  const unread = { disk: { loadMs: 0, hitTokens: 0 } }
  t.equal(await lostMs(unread), 700, 'none was read yet: as long as the model itself')
})

t.test('a scheduler sees who waits, and one that fails is replaced', async (t) => {
  const seen: ModelView[][] = []
  const decisions: ModelDecision[] = [
    { load: 'a' },
    { drain: 'a' },
    { holdMs: 500 },
    { drain: 'a' },
    { unload: 'b' },
  ]
  const { clock, pool, run, ask, request, settle, errors } = pooled(
    { maxLoaded: 1 },
    { a: {}, b: {} },
    (models) => {
      seen.push([...models])
      return decisions[seen.length - 1]!
    },
  )
  const first = ask('a', 100)
  await settle(loadMs)
  const began = clock.now()
  const urgent = pool.open('b', { urgency: { priority: 2, deadlineMs: 700 } })
  const answer = collect(urgent.submit({ ...request(), id: 'x' }))
  const behind = ask('a', 60)
  t.same(seen[1], [
    {
      name: 'b',
      state: 'unloaded',
      isDraining: false,
      users: 0,
      lastUsed: 0,
      loadMs: undefined,
      lostMs: 0,
      fits: false,
      waiting: seen[1]?.[0]?.waiting,
    },
    {
      name: 'a',
      state: 'loaded',
      isDraining: false,
      users: 1,
      lastUsed: began,
      loadMs,
      lostMs: 0,
      fits: false,
      waiting: [],
    },
  ])
  t.match(seen[1]?.[0]?.waiting, [{ since: began, priority: 2, deadline: began + 700 }])
  t.match(seen[2], [{ name: 'b' }, { name: 'a', isDraining: true, waiting: [{ priority: 0 }] }])
  t.match(pool.status('a'), { users: 2, waiting: 0 }, 'it is to stay for now')
  await settle(499)
  t.equal(seen.length, 3)
  await settle(1)
  t.equal(seen.length, 4, 'it is asked again by time')
  t.equal((await run(first)).tokens.length, 100)
  t.equal((await run(behind)).tokens.length, 60)
  t.match(errors, [{ message: 'the model scheduler "lru" failed: lru decides from now on' }])
  t.equal((await run(answer)).tokens.length, 3)
  t.match(pool.status('a'), { loads: 1, swaps: 1 })
  const { timeline } = await run(pool.open('b', { peek: true }).explain('x'))
  const waited = timeline.find(({ type }) => type === 'waited')
  t.match(waited, { atMs: 0, reasons: { load: loadMs } })
  const { turn = 0 } = (waited?.type === 'waited' && waited.reasons) || {}
  t.ok(turn > 900 && turn < 1200, `${turn} ms until the other one had left`)
})

t.test('keep_alive', async (t) => {
  const models = { a: {}, b: { keepAliveMs: 100 } }
  const { pool, run, ask, clock, settle, request } = pooled({ keepAliveMs: 5000 }, models)
  const state = (name = 'a') => pool.status(name).state
  const askFor = async (keepAliveMs: number) =>
    await run(collect(pool.open('a', { keepAliveMs }).submit(request(20))))
  const { a } = { a: 'a' }
  await run(ask(a))
  await run(pool.load('b'))
  t.equal(pool.status('b').expiresAt, clock.now() + 100, 'a model may have a time of its own')
  await settle(101)
  t.equal(state('b'), 'unloaded')

  await askFor(2000)
  const end = clock.now()
  t.equal(pool.status().expiresAt, end + 2000)
  clock.aheadMs = 3_600_000
  t.equal(pool.status().expiresAt, end + 3_602_000, 'while it sleeps, no time passes')
  await settle(1999)
  t.equal(state(), 'loaded')
  await run(ask(a))
  t.equal(pool.status().expiresAt, clock.wall() + 2000, 'it is the model’s until it says otherwise')
  const streaming = ask(a, 300)
  await settle(2500)
  t.match(pool.status(), { state: 'loaded', expiresAt: undefined }, 'nothing expires in use')
  await run(streaming)
  await settle(2001)
  t.equal(state(), 'unloaded')

  t.equal((await askFor(0)).tokens.length, 20, 'with 0 it is unloaded after its use')
  await settle()
  t.equal(state(), 'unloaded')
  await askFor(Infinity)
  await settle(1e9)
  t.equal(state(), 'loaded', 'for good')
  t.equal(clock.nextTimer(), undefined)
})

t.test('asked to unload', async (t) => {
  const { pool, run, ask, models, settle, inMemory } = pooled({}, { a: {} })
  await run(pool.unload('a'))
  const answer = ask('a', 50)
  await settle(loadMs + 100)
  const unloaded = pool.unload('a')
  t.equal((await run(answer)).tokens.length, 50, 'what runs ends first')
  await run(unloaded)
  t.equal(pool.status('a').state, 'unloaded')
  const next = ask('a')
  await settle(1)
  const during = pool.unload('a')
  t.equal((await run(next)).tokens.length, 3)
  await run(during)
  t.equal(models['a']?.loads, 2)
  await t.rejects(pool.unload('b'), { code: 'model_not_found' })

  for (const heeds of [false, true]) {
    const waiting = new AbortController()
    const opened = pool.open('a', { until: waiting.signal }).info()
    if (heeds) models['a']?.failures.push(new CllmError('cancelled', 'The load was ended'))
    await settle(1)
    waiting.abort(new CllmError('engine_unavailable', 'nobody waits any more'))
    const ended = pool.unload('a')
    t.equal(models['a']?.signal?.aborted, true, 'a load that nobody waits for is ended')
    await t.rejects(opened, { code: 'engine_unavailable' })
    const later = ask('a')
    await run(ended)
    t.equal(pool.status('a').error, undefined)
    t.equal((await run(later)).tokens.length, 3, 'who comes then waits for the next load')
    await run(pool.unload('a'))
  }
  t.same([models['a']?.loads, models['a']?.closes, inMemory()], [6, 5, []])
})

t.test('without autoload a request loads nothing', async (t) => {
  const { pool, run, ask, models, settle } = pooled({ autoload: false, maxLoaded: 2 }, { a: {} })
  t.same(pool.loading, { autoload: false, maxLoaded: 2, scheduler: 'lru' })
  t.throws(() => pool.open('a'), { code: 'invalid_request', message: /a is not in memory/ })
  const loading = pool.open('a', { load: true }).info()
  await settle(1)
  const answer = ask('a')
  await run(loading)
  t.equal((await run(answer)).tokens.length, 3, 'while it is loaded, requests wait')
  await run(pool.unload('a'))
  t.throws(() => pool.open('a'), { code: 'invalid_request' })
  await run(pool.load('a'))
  t.equal((await run(ask('a'))).tokens.length, 3)
  t.equal(models['a']?.loads, 2)
})

t.test('a model that cannot be loaded', async (t) => {
  const { pool, run, ask, models, errors } = pooled({}, { a: {}, b: {} })
  models['a']!.failures.push(new CllmError('model_invalid', 'not a model'))
  const answers = await run(Promise.all([ask('a'), ask('b'), ask('a')]))
  t.match(answers[0]?.error, { code: 'model_invalid', message: 'not a model' })
  t.match(answers[2]?.error, { code: 'model_invalid' })
  t.equal(answers[1]?.tokens.length, 3, 'others are loaded all the same')
  t.match(pool.status('a'), { state: 'unloaded', error: { code: 'model_invalid' } })
  const fields = { model: 'a', code: 'model_invalid' }
  t.same(errors, [{ fields, message: 'the model cannot be loaded: not a model' }], 'no stack')
  models['a']!.failures.push(new CllmError('model_invalid', 'not a model'))
  await t.rejects(run(pool.load('a', { isTold: true })), { code: 'model_invalid' })
  t.equal(errors.length, 1, 'who loads it tells of the failure')
  t.equal((await run(ask('a'))).tokens.length, 3, 'it is tried again')
  t.equal(pool.status('a').error, undefined)
})

t.test('an engine that is gone for good', async (t) => {
  const { pool, run, ask, models, settle } = pooled({}, { a: {}, b: {} })
  await run(Promise.all([ask('a'), ask('b')]))
  models['a']!.die('it died five times')
  await settle()
  t.match(pool.status('a'), { state: 'unloaded', error: { code: 'engine_unavailable' } })
  t.equal((await run(ask('b'))).tokens.length, 3)
  t.equal((await run(ask('a'))).tokens.length, 3)
  t.same([models['a']?.loads, models['b']?.loads], [2, 1])
})

t.test('memory', async (t) => {
  const gigabyte = 1e9
  const short = (total: number, available: number) =>
    new CllmError('insufficient_memory', `needs ${total} GB, and ${available} GB is free`, {
      details: { total: total * gigabyte, available: available * gigabyte },
    })
  const sizes = { a: { memoryBytes: gigabyte }, b: { memoryBytes: 2 * gigabyte }, c: {} }
  const { run, ask, models, inMemory } = pooled({}, sizes)
  await run(Promise.all([ask('a'), ask('b')]))
  models['c']!.failures.push(short(3, 1), short(3, 2))
  t.equal((await run(ask('c'))).tokens.length, 3)
  t.same(inMemory(), ['c'], 'others leave one by one until it fits')
  t.same(models['c']?.heldBytes, [3e9, 2e9, 0])

  await run(ask('a'))
  models['b']!.failures.push(short(9, 1))
  t.match((await run(ask('b'))).error, {
    code: 'insufficient_memory',
    message: 'needs 9 GB, and 1 GB is free; models in memory hold c 0.0 GB, a 1.0 GB',
  })
  t.same(inMemory().length, 2, 'nobody leaves for what cannot fit')
})

t.test('aliases', async (t) => {
  const clock = new SimulatedClock()
  const models = ['a', 'b'].map((name) => new FakeModel(name, { clock, inMemory: [] }))
  const aliased = new ModelPool({ models, clock, aliases: { small: 'b', usual: null } })
  t.equal(aliased.nameOf('usual'), 'a')
  t.same(aliased.status('a').aliases, ['usual'])
  t.equal(aliased.nameOf('small'), 'b')
  t.equal(aliased.nameOf(), 'a')
  t.equal(aliased.nameOf('b:latest'), 'b', 'as lists of Ollama have it')
  t.equal(aliased.nameOf('small:latest'), 'b')
  t.throws(() => aliased.nameOf('large:latest'), { message: /instead got "large:latest"/ })
  t.throws(() => aliased.nameOf('large'), {
    message: /one of a, b, small, usual, instead got "large"/,
  })
  const any = new ModelPool({ models, clock, aliases: { '*': 'b' } })
  t.same(
    ['a', 'large', undefined].map((name) => any.nameOf(name)),
    ['a', 'b', 'a'],
  )
  t.same(aliased.status('b').aliases, ['small'])
  t.same(any.status('b').aliases, [], 'what any unknown name is, is no name')
  const tagged = new ModelPool({ models, clock, tags: ['chat'] })
  t.same(tagged.status('a').tags, ['chat'])
})

t.test('models come and go', async (t) => {
  const { pool, run, ask, clock, inMemory } = pooled({}, { a: {} })
  const rig = { clock, inMemory: [] as string[] }
  pool.add(new FakeModel('b', rig))
  t.equal((await run(ask('b'))).tokens.length, 3)
  await run(pool.remove('b'))
  t.same(pool.list(), ['a'])
  t.same([...rig.inMemory, ...inMemory()], [])
})

t.test('a model that is removed while requests wait for it is not loaded afterwards', async (t) => {
  const { pool, run, ask, models, settle, inMemory } = pooled({}, { a: {}, b: {} })
  const opened = pool.open('b')
  const first = ask('a')
  const behind = ask('b')
  await settle(1)
  await run(pool.remove('b'))
  t.match((await behind).error, {
    code: 'model_not_found',
    message: 'This server does not serve the model b any more',
  })
  t.match((await collect(opened.submit(greedy([5], 1)))).error, { code: 'model_not_found' })
  t.same(pool.list(), ['a'])
  t.equal((await run(first)).tokens.length, 3, 'others are served')
  await settle(2 * loadMs)
  t.equal(models['b']?.loads, 0)
  t.same(inMemory(), ['a'])
  await t.rejects(pool.remove('b'), { code: 'model_not_found' })
})

t.test('a model that is removed while it is loaded leaves memory', async (t) => {
  const { pool, run, ask, models, settle, inMemory, clock } = pooled({ maxLoaded: 1 }, { a: {} })
  const waiting = ask('a')
  await settle(1)
  const removed = pool.remove('a')
  t.match((await waiting).error, { code: 'model_not_found' }, 'at once')
  t.equal(models['a']?.signal?.aborted, true)
  const rig = { clock, inMemory: [] as string[] }
  pool.add(new FakeModel('a', rig))
  const next = ask('a')
  await run(removed)
  t.same([models['a']?.closes, inMemory(), rig.inMemory], [1, [], []], 'the new one waits for it')
  t.equal((await run(next)).tokens.length, 3)
  t.same(rig.inMemory, ['a'])
})

t.test('requests that keep coming do not keep a model that is to leave', async (t) => {
  const { pool, run, ask, models, settle } = pooled({}, { a: {}, b: {} })
  await run(ask('a'))
  const answers = [ask('a', 20)]
  const unloaded = pool.unload('a').then(() => models['a']?.closes)
  for (let count = 0; count < 10; count++) {
    await settle(100)
    answers.push(ask('a', 20))
  }
  t.equal(await run(unloaded), 1)
  for (const answer of answers) t.equal((await run(answer)).tokens.length, 20)
  t.equal(models['a']?.loads, 2, 'those that came later waited for it to be loaded again')

  const last = ask('a', 20)
  await settle(1)
  const removed = pool.remove('a')
  t.throws(() => pool.open('a'), { code: 'model_not_found' })
  t.equal((await run(last)).tokens.length, 20, 'what runs ends first')
  await run(removed)
  t.equal(models['a']?.closes, 2)
})

t.test('a limit of those who wait', async (t) => {
  const { run, ask } = pooled({ maxWaiting: 1 }, { a: {} })
  const first = ask('a')
  t.match((await ask('a')).error, { code: 'queue_full', message: /model a, which is the limit/ })
  t.equal((await run(first)).tokens.length, 3)
})

t.test("the queue's limits hold for requests that arrive during the load", async (t) => {
  const codesOf = async (options: Partial<EngineOptions>, count: number) => {
    const { run, ask, models } = pooled({}, { a: { options, slots: 1 } })
    const answers = await run(Promise.all(Array.from({ length: count }, () => ask('a', 50))))
    t.equal(models['a']?.loads, 1)
    const served = answers.filter(({ error }) => error === undefined)
    for (const { end } of served) t.ok(end!.timings.queueMs >= loadMs, 'the load counts as waiting')
    return answers.map(({ error }) => error?.code ?? 'served')
  }
  t.same(await codesOf({ maxQueuedRequests: 2 }, 5), [
    'served',
    'served',
    'served',
    'queue_full',
    'queue_full',
  ])
  t.same(await codesOf({ maxQueuedTokens: 6 }, 5), [
    'served',
    'served',
    'queue_full',
    'queue_full',
    'queue_full',
  ])
  const codes = await codesOf({ maxQueueWaitMs: 600 }, 5)
  t.equal(codes[0], 'served')
  t.equal(codes.at(-1), 'wait_too_long')
  t.same(
    await codesOf({}, 5),
    Array.from({ length: 5 }, () => 'served'),
  )

  const { run, pool, request } = pooled({}, { a: {} })
  const late = collect(pool.open('a').submit({ ...request(100), timeoutMs: loadMs + 200 }))
  const { error, tokens } = await run(late)
  t.match(error, { code: 'timeout' }, 'its time limit counts from its arrival')
  t.ok(tokens.length > 5 && tokens.length < 30, `${tokens.length} tokens`)

  const limited = pooled({ requestTimeoutMs: 300 }, { a: {} })
  const { error: tooLate } = await limited.run(limited.ask('a'))
  t.match(tooLate, { code: 'timeout' }, "the server's limit, too")
  t.equal(limited.clock.now(), 1300, 'while the model is loaded')
})

t.test('an id is taken while its model is loaded, and free again', async (t) => {
  const { pool, run, request } = pooled({}, { a: {} })
  const submit = () => collect(pool.open('a').submit({ ...request(), id: 'x' }))
  const first = submit()
  t.match((await submit()).error, { code: 'duplicate_request' })
  t.equal((await run(first)).tokens.length, 3)
  t.equal((await run(submit())).tokens.length, 3)
})

t.test('a request that has left ends no later one with its id', async (t) => {
  const { pool, run, request } = pooled({}, { a: {} })
  const submit = () => pool.open('a').submit({ ...request(), id: 'x' })
  await submit().return?.()
  const next = await run(collect(submit()))
  t.same([next.error, next.tokens.length], [undefined, 3])
})

t.test('the client of an embedding leaves while the model is loaded', async (t) => {
  const { pool, run, models } = pooled({}, { a: {} })
  const leaving = new AbortController()
  const left = pool.open('a').embed({ tokens: [5] }, { signal: leaving.signal })
  leaving.abort()
  await t.rejects(left, { code: 'cancelled' })
  await run(pool.load('a'))
  t.match(pool.status('a'), { users: 0, waiting: 0 })
  t.equal(models['a']?.loads, 1)
})

t.test('a client that leaves as its model is loaded leaves no lease behind', async (t) => {
  const { pool, run, settle, clock } = pooled({}, { a: {} })
  const leaving = new AbortController()
  const left = collect(pool.open('a').submit(greedy([5], 9), { signal: leaving.signal }))
  const loaded = pool.load('a').then(() => leaving.abort())
  t.match((await run(left)).error, { code: 'cancelled' })
  await loaded
  await settle(500)
  t.equal(pool.status('a').users, 0)
  t.equal(clock.nextTimer(), undefined)
})

/** The client of a model whose load takes a second, and the requests that reach its engine. */
function lateClient() {
  const clock = new SimulatedClock(1000)
  const submitted: GenerateRequest[] = []
  const backend = new FakeBackend({ clock, stepMs: () => 10 })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock, random: counting() })
  const direct = new LocalEngineClient(engine, new PluginRegistry(), counting())
  const client = overriding(direct, {
    submit(request: GenerateRequest, options?: { readonly signal?: AbortSignal }) {
      submitted.push(request)
      return direct.submit(request, options)
    },
  })
  const load = async (): Promise<LoadedModel> => {
    await new Promise<void>((resolve) => clock.at(clock.now() + loadMs, resolve))
    return { client, close: async () => await direct.close() }
  }
  const pool = new ModelPool({ models: [{ name: 'a', load }], clock })
  return { clock, pool, client: pool.open('a'), submitted }
}

t.test('PooledEngineClient: a request that waited for the load says since when', async (t) => {
  const { clock, client, submitted } = lateClient()
  const continued = { tokens: [7], elapsedMs: 50 }
  const answers = [
    collect(client.submit(greedy([5], 3))),
    collect(client.submit({ ...greedy([6], 3), arrivedMsAgo: 50, continued })),
  ]
  await runUntilIdle(clock, 1400)
  answers.push(collect(client.submit(greedy([8], 3))))
  await drive(clock, Promise.all(answers))
  await drive(clock, collect(client.submit(greedy([9], 3))))
  t.match(submitted, [
    { ...greedy([5], 3), arrivedMsAgo: 1000 },
    { arrivedMsAgo: 1050, continued: { tokens: [7], elapsedMs: 1050 } },
    { arrivedMsAgo: 600 },
    greedy([9], 3),
  ])
  t.notOk('arrivedMsAgo' in (submitted[3] ?? {}), 'a loaded model gets the request as it came')
})

t.test('PooledEngineClient: cancels, time limits and recordings before the load', async (t) => {
  const { clock, pool, client, submitted } = lateClient()
  const cancelled = collect(client.submit({ ...greedy([5], 3), id: 'x' }))
  const timedOut = collect(client.submit({ ...greedy([5], 3), timeoutMs: 300 }))
  const left = client.submit(greedy([5], 3))
  const reading = left.next()
  await runUntilIdle(clock, 1100)
  client.cancel('x', 'No longer needed')
  client.cancel('unknown')
  t.match((await cancelled).error, { code: 'cancelled', message: 'No longer needed' })
  void left.return?.()
  t.match(await reading, { done: true })
  await runUntilIdle(clock, 1290)
  t.match(pool.status('a'), { state: 'loading', waiting: 1 })
  await runUntilIdle(clock, 1300)
  t.match((await timedOut).error, { code: 'timeout' }, 'while its model is loaded')
  await client.drain()
  t.equal(clock.now(), 1300, 'there is nothing to drain')
  await t.rejects(drive(clock, client.recording!()), { code: 'unsupported', message: /of a has/ })
  t.same(submitted, [], 'none of them reached the engine')
  t.match(pool.status('a'), { state: 'loaded', users: 0, waiting: 0 })
  t.equal(clock.nextTimer(), undefined)
})

t.test('a server on a pool', async (t) => {
  const { pool, run, ask, clock, settle, inMemory } = pooled({}, { a: {}, b: {}, c: {} })
  const server = createServer({ directory: pool, transports: [], clock })
  t.equal(server.directory, pool)
  const short = ask('a', 5)
  const long = ask('b', 500)
  await settle(2 * loadMs + 10)
  const loading = ask('c')
  await settle(100)
  await run(server.close(500))
  t.equal((await short).tokens.length, 5)
  t.match((await long).error, { code: 'shutting_down' })
  t.match((await loading).error, { code: 'shutting_down' })
  t.match((await ask('a')).error, { code: 'shutting_down' })
  t.same(inMemory(), [])
})

t.test('counters go on where the engine before had ended', async (t) => {
  const { pool, run, ask, request } = pooled({}, { a: {} })
  await run(ask('a', 5))
  const counted = await run(pool.open('a', { peek: true }).statistics())
  t.equal(pool.status('a').past, undefined)
  await run(pool.unload('a'))
  const { past } = pool.status('a')
  const { promptTokens, steps, stepMs } = counted
  t.match(past, { generatedTokens: 5, promptTokens, steps, stepMs, requests: { done: 1 } })
  t.match(past, { running: 0, slots: [] }, 'and nothing is going on')
  const twice = collect(pool.open('a').submit(request(7)))
  t.equal((await run(twice)).tokens.length, 7)
  const after = await run(pool.open('a', { peek: true }).statistics())
  t.match(after, { generatedTokens: 12, promptTokens: 2 * promptTokens, requests: { done: 2 } })
  t.equal(after.slots.length, 4)
  const all = ({ counts }: typeof stepMs): number => counts.reduce((sum, count) => sum + count, 0)
  t.equal(all(after.stepMs), after.steps)
  t.ok(after.steps > steps && after.stepMs.sum > stepMs.sum)
  await run(pool.unload('a'))
  t.match(pool.status('a').past, { generatedTokens: 12, requests: { done: 2 } })
})

t.test('requests that wait for a model have the time of those that run', async (t) => {
  const { pool, run, ask, clock, settle, inMemory, models } = pooled(
    { maxLoaded: 1 },
    { a: {}, b: {}, c: {} },
  )
  const server = createServer({ directory: pool, transports: [], clock })
  const first = ask('a', 50)
  await settle(loadMs + 10)
  const waiting = [ask('b', 5), ask('c', 5)]
  await settle(10)
  const began = clock.now()
  const closed = run(server.close(60_000))
  t.equal((await first).tokens.length, 50)
  for (const one of waiting) t.equal((await one).tokens.length, 5, 'loaded after the stop began')
  await closed
  t.ok(clock.now() - began < 5_000, 'and the server ends with them')
  t.same(inMemory(), [])
  t.equal(models['c']?.loads, 1)
})

t.test('a load that the end of the server ends refuses as such', async (t) => {
  const { pool, ask, clock, settle, models, run } = pooled({}, { a: {} })
  models['a']?.failures.push(new CllmError('cancelled', 'The start of the engine was cancelled'))
  const server = createServer({ directory: pool, transports: [], clock })
  const asked = ask('a')
  await settle(10)
  await run(server.close(100))
  t.match((await asked).error, { code: 'shutting_down' })
  t.equal(pool.status('a').error, undefined)
})

/** Any decision that can be carried out, by lot. */
function decidingBy(seed: number): ModelScheduler['decide'] {
  let state = seed
  return (models) => {
    const decisions = models.flatMap(({ name, state, users, waiting, fits }): ModelDecision[] => {
      if (state === 'unloaded') return waiting.length > 0 && fits ? [{ load: name }] : []
      return users === 0 ? [{ unload: name }] : [{ drain: name }]
    })
    state = nextNumber(state)
    return [...decisions, { holdMs: 50 }][state % (decisions.length + 1)]!
  }
}

t.test('whatever is asked in whatever order is answered, within the limit', async (t) => {
  const step = fc.record({
    model: fc.constantFrom('a', 'b', 'c', 'd'),
    tokens: fc.integer({ min: 1, max: 60 }),
    keepAliveMs: fc.constantFrom(undefined, 0, 50, 2000, Infinity),
    leaves: fc.option(fc.integer({ min: 0, max: 3000 }), { freq: 3 }),
    pause: fc.integer({ min: 0, max: 1500 }),
    unload: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 12 }),
      fc.nat(2),
      fc.nat(),
      async (steps, more, seed) => {
        const decide = seed % 2 === 0 ? undefined : decidingBy(seed)
        const names = { a: {}, b: {}, c: {}, d: {} }
        const { pool, clock, run, settle, inMemory } = pooled(
          { maxLoaded: 1 + more },
          names,
          decide,
        )
        const answers = []
        for (const { model, tokens, keepAliveMs, leaves, pause, unload } of steps) {
          const leaving = new AbortController()
          const client = pool.open(model, keepAliveMs === undefined ? {} : { keepAliveMs })
          const stream = client.submit(greedy([5], tokens), { signal: leaving.signal })
          if (leaves !== null) clock.at(clock.now() + leaves, () => leaving.abort())
          answers.push(
            collect(stream).then(({ error, tokens: { length } }) =>
              leaves === null
                ? length === tokens
                : length === tokens || error?.code === 'cancelled',
            ),
          )
          if (unload) void pool.unload(model)
          await settle(pause)
          if (inMemory().length > 1 + more) throw new Error(`too many: ${inMemory().join()}`)
        }
        const all = await run(Promise.all(answers))
        if (all.includes(false)) throw new Error('a request was not answered')
        for (const name of pool.list()) {
          const { users, waiting } = pool.status(name)
          if (users + waiting > 0) throw new Error(`${name} has users that are gone`)
        }
      },
    ),
    { numRuns: 100 },
  )
  t.pass()
})
