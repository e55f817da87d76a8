import {
  BACKEND,
  BaseCacheManager,
  CellPool,
  createEngine,
  type GenerateRequest,
  KV_CACHE_MANAGER,
  type KVCacheManager,
  type PartContext,
  type SchedulerState,
  PluginRegistry,
  PREFIX_INDEX,
  type Sequence,
  SimulatedClock,
  type Slot,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import {
  drive,
  FakeBackend,
  FakeTokenizer,
  firstComeFirstServed,
  runUntilIdle,
} from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import {
  collect,
  counting,
  empty,
  expectedTokens,
  greedy,
  isDone,
  policyOf,
  promptOf,
  rig,
  type RigOptions,
} from '../../rig.js'

/** Four slots of up to 200 tokens that hold 300 together. */
const pooled = (options: RigOptions = {}) =>
  rig({ slots: 4, contextSize: 200, kvTokens: 300, ...options })

type Pooled = ReturnType<typeof pooled>

const start = ({ client }: Pooled, id: string, request: GenerateRequest) =>
  collect(client.submit({ ...request, id }))

const running = ({ engine }: Pooled): (string | undefined)[] =>
  engine.statistics().slots.flatMap(({ request }) => request ?? [])

t.test(
  'a request is admitted when its prompt and its answer have room beside the others',
  async (t) => {
    const made = pooled()
    const { clock, engine } = made
    const answers = ['a', 'b', 'c', 'd'].map((id, family) =>
      start(made, id, greedy(promptOf(90, family), 20)),
    )
    await runUntilIdle(clock, 1015)
    t.same(running(made), ['a', 'b'], 'two of 110 tokens fit into 300, though slots are free')
    t.equal(engine.statistics().waiting, 2)
    const all = await made.run(Promise.all(answers))
    for (const [family, { tokens }] of all.entries()) {
      t.same(tokens, expectedTokens(made.backend, promptOf(90, family), 20))
    }
    t.equal(engine.statistics().preemptions, 0)
    await isDone(t, made)
  },
)

t.test('a long request is not overtaken for ever by short ones behind it', async (t) => {
  const made = pooled()
  const order: string[] = []
  made.engine.observe({ onFinished: ({ id }) => void order.push(id) })
  const ask = (id: string, length: number, family: number) =>
    start(made, id, greedy(promptOf(length, family), 10))
  const answers = [ask('short', 100, 0), ask('other', 100, 1), ask('long', 190, 2)]
  const late = Array.from({ length: 6 }, (_, index) => ask(`late ${index}`, 60, 3 + index))
  await made.run(Promise.all([...answers, ...late]))
  t.same(order.slice(0, 3), ['short', 'other', 'long'])
  await isDone(t, made)
})

t.test('a shared prefix takes its cells once', async (t) => {
  const made = pooled()
  await made.ask(greedy(promptOf(150), 1))
  const answers = [1, 2, 3].map((own) =>
    start(made, `r${own}`, greedy([...promptOf(150), own], 20)),
  )
  await runUntilIdle(made.clock, made.clock.now() + 25)
  t.same(new Set(running(made)), new Set(['r1', 'r2', 'r3']), 'three of 170 tokens fit into 300')
  const [one] = await made.run(Promise.all(answers))
  t.ok((one?.end?.usage.cachedTokens ?? 0) >= 144)
  await isDone(t, made)
})

t.test(
  'no room is made for who waits for a prefix, and slots are free once it is there',
  async (t) => {
    const made = pooled()
    const { clock, run } = made
    await made.ask(greedy(promptOf(100, 9), 1))
    const alike = (id: string, length: number) =>
      start(made, id, greedy([...promptOf(length), id.length], 10))
    await run(Promise.all(['r', 'rr', 'rrr'].map((id) => alike(id, 100))))
    const { end } = await made.ask(greedy([...promptOf(100, 9), 7], 1))
    t.equal(end?.usage.cachedTokens, 100, 'what was idle is still there')

    const crowded = pooled()
    const answers = ['r', 'rr', 'rrr'].map((id) =>
      start(crowded, id, greedy([...promptOf(150, 1), id.length], 20)),
    )
    await runUntilIdle(crowded.clock, crowded.clock.now() + 45)
    t.equal(running(crowded).length, 3, 'two of 171 tokens would not fit into 300')
    await crowded.run(Promise.all(answers))

    const byLength = policyOf((state) => {
      const waiting = [...state.waiting].toSorted((a, b) => a.promptTokens - b.promptTokens)
      return firstComeFirstServed.plan({ ...state, waiting: waiting as never })
    })
    const behind = pooled({ policy: byLength, batchSize: 64 })
    const first = start(behind, 'first', greedy(promptOf(150), 40))
    await runUntilIdle(behind.clock, behind.clock.now() + 5)
    const alikeOne = start(behind, 'alike', greedy([...promptOf(150), 9], 5))
    const large = start(behind, 'large', greedy(promptOf(190, 3), 5))
    await runUntilIdle(behind.clock, behind.clock.now() + 60)
    t.same(running(behind), ['first', 'alike'], 'though the large one was refused')
    await behind.run(Promise.all([first, alikeOne, large]))
    await isDone(t, behind)
    await runUntilIdle(clock)
  },
)

t.test('idle slots are emptied for others, the longest unused first', async (t) => {
  const made = pooled()
  for (const family of [0, 1, 2]) await made.ask(greedy(promptOf(80, family), 10))
  await made.ask(greedy(promptOf(100, 3), 10))
  const cached = async (family: number) => {
    const { end } = await made.ask(greedy([...promptOf(80, family), 7], 1))
    return end?.usage.cachedTokens
  }
  t.equal(await cached(2), 80, 'what was used last is still there')
  t.ok((await cached(0)) === 0, 'and what was not is gone')
  await isDone(t, made)
})

t.test('of programs that slot is emptied first whose loss costs the least', async (t) => {
  const made = pooled()
  for (const [family, retainMs] of [600_000, 0, 0].entries()) {
    await made.ask({ ...greedy(promptOf(80, family), 10), retainMs })
  }
  made.clock.advance(60_000)
  await made.ask(greedy(promptOf(100, 3), 10))
  const { end } = await made.ask(greedy([...promptOf(80, 0), 7], 1))
  t.equal(end?.usage.cachedTokens, 80, 'it was unused the longest, and will return')
  await isDone(t, made)
})

t.test('answers that grow beyond what was expected preempt one request at a time', async (t) => {
  // Short answers teach the engine to expect little.
  const victims: string[] = []
  const asked: number[] = []
  const policy = {
    ...firstComeFirstServed,
    victim: (state: { readonly running: readonly { readonly id: string }[] }) => {
      asked.push(state.running.length)
      return state.running.find(({ id }) => id === 'b')?.id
    },
  }
  const made = pooled({ policy, endProbability: 0.5 })
  for (let seed = 0; seed < 60; seed++) {
    await made.ask({ prompt: { tokens: promptOf(5) }, maxTokens: 90, sampling: { seed } })
  }
  made.engine.observe({ onPreempted: ({ id }) => void victims.push(id) })
  const answers = ['a', 'b', 'c'].map((id, family) =>
    start(made, id, greedy(promptOf(80, family), 80)),
  )
  const all = await made.run(Promise.all(answers))
  for (const [family, { tokens }] of all.entries()) {
    t.same(tokens, expectedTokens(made.backend, promptOf(80, family), 80), 'and all are served')
  }
  t.equal(victims[0], 'b', "the policy's choice gives way")
  t.ok(victims.length < 6, `${victims.length} preemptions`)
  t.ok(asked.every((count) => count > 1))
  await isDone(t, made)
})

t.test('nobody is preempted for drafts', async (t) => {
  const script = (content: readonly number[]) => 20 + (content.length % 5)
  const made = pooled({ endProbability: 0.5, script, options: { speculative: 'ngram' } })
  for (let seed = 0; seed < 60; seed++) {
    await made.ask({ prompt: { tokens: promptOf(5) }, maxTokens: 3, sampling: { seed } })
  }
  const answers = [100, 20, 20].map((maxTokens, family) =>
    start(made, `r${family}`, greedy(promptOf(80, family), maxTokens)),
  )
  const all = await made.run(Promise.all(answers))
  t.same(
    all.map(({ tokens }) => tokens.length),
    [100, 20, 20],
  )
  t.ok((all[0]?.end?.timings.acceptedTokens ?? 0) > 20)
  t.equal(made.engine.statistics().preemptions, 0)
  await isDone(t, made)
})

t.test('a policy that throws when asked for a victim is replaced', async (t) => {
  const policy = {
    ...firstComeFirstServed,
    name: 'thrower',
    victim: () => {
      throw new Error('no idea')
    },
  }
  const made = pooled({ policy, endProbability: 0.5, fallbackPolicy: () => firstComeFirstServed })
  for (let seed = 0; seed < 60; seed++) {
    await made.ask({ prompt: { tokens: promptOf(5) }, maxTokens: 90, sampling: { seed } })
  }
  const answers = ['a', 'b', 'c'].map((id, family) =>
    start(made, id, greedy(promptOf(80, family), 80)),
  )
  const all = await made.run(Promise.all(answers))
  t.ok(all.every(({ end }) => end?.usage.generatedTokens === 80))
  t.match(made.engine.scheduler().fallback, { from: 'thrower', reason: /no idea/ })
  await isDone(t, made)
})

t.test('a pool of cells counts what slots share once', async (t) => {
  const change = fc.record({
    kind: fc.constantFrom('resize', 'resize', 'copy'),
    slot: fc.nat(3),
    from: fc.nat(3),
    length: fc.nat(30),
  })
  const property = fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
    const pool = new CellPool(60, 4)
    const slots: symbol[][] = [[], [], [], []]
    const free = () => 60 - new Set(slots.flat()).size
    for (const { kind, slot, from, length } of changes) {
      const own = slots[slot]!
      if (kind === 'copy') {
        if (slot === from) continue
        pool.copy(from, slot, length)
        slots[slot] = slots[from]!.slice(0, length)
      } else if (length - own.length > free()) {
        t.throws(() => pool.resize(slot, length), { message: /^expected at most \d+ more tokens/ })
      } else {
        pool.resize(slot, length)
        while (own.length < length) own.push(Symbol('cell'))
        own.length = length
      }
      if (pool.free !== free()) throw new Error(`${pool.free} free, expected ${free()}`)
    }
  })
  fc.assert(property, { numRuns: 200 })
  t.throws(() => new CellPool(10, 1).resize(1, 1), { message: 'there is no slot 1' })

  const long = new CellPool(300_000, 2)
  long.resize(0, 200_000)
  long.copy(0, 1, 200_000)
  t.equal(long.free, 100_000, 'of the longest contexts, too')
})

/** As little as a manager of a plug-in needs. */
class Plain extends BaseCacheManager {
  lookUp(_sequence: Sequence): number {
    return 0
  }

  onAdvanced() {}
  async move() {
    return false
  }

  async acquire(sequence: Sequence) {
    const slot = this.slots.find(({ owner }) => owner === undefined)!
    await this.evict(slot)
    this.give(slot, sequence)
  }

  truncate(sequence: Sequence, length: number) {
    sequence.computedTokens = this.backend.truncate(sequence.slot!, length)
  }

  shift() {}

  release(sequence: Sequence, now: number) {
    const slot = this.slotOf(sequence)
    if (slot !== undefined) this.takeBack(slot, now)
  }

  async evict(slot: Slot) {
    this.backend.release(slot.id)
    slot.length = 0
  }
}

t.test("a stranger's manager needs no more than slots that it fills and empties", async (t) => {
  let finished = 0
  class Watched extends Plain {
    override onFinished() {
      super.onFinished()
      finished++
    }

    override onWaiting({ state, id }: Sequence) {
      if (state === 'preempted') throw new Error(`${id} has waited before`)
    }
  }
  const registry = new PluginRegistry()
  registry.provide(
    KV_CACHE_MANAGER,
    'plain',
    ({ get }) => new Watched(get(BACKEND), get(PREFIX_INDEX)),
  )
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots: 2, stepMs: () => 10 })
  const use = { 'kv-cache-manager': 'plain' }
  const policy = policyOf((state) => {
    const victim = state.running.find((one) => one.generatedTokens === 3 && one.preemptions === 0)
    if (victim === undefined) return firstComeFirstServed.plan(state)
    return { ...empty, preempt: [victim.id], wakeAt: state.now + 1 }
  })
  const engine = createEngine({ backend, policy, clock, registry, use })
  const client = new LocalEngineClient(engine, registry, counting())
  const prompts = [1, 2, 3, 4, 5].map((family) => promptOf(30, family))
  const answers = await drive(
    clock,
    Promise.all(prompts.map((prompt) => collect(client.submit(greedy(prompt, 6))))),
  )
  for (const [index, { tokens }] of answers.entries()) {
    t.same(tokens, expectedTokens(backend, prompts[index]!, 6))
  }
  t.match(engine.statistics(), { requests: { done: 5 }, cachedTokens: 0, preemptions: 5 })
  t.equal(finished, 5, 'what it overrides is called')
  t.same([backend.violations, backend.samplers.size], [[], 0])
})

t.test("a policy knows what programs keep in the slots of a stranger's manager", async (t) => {
  const registry = new PluginRegistry()
  registry.provide(
    KV_CACHE_MANAGER,
    'plain',
    ({ get }) => new Plain(get(BACKEND), get(PREFIX_INDEX)),
  )
  const clock = new SimulatedClock(1000)
  const call = new FakeTokenizer().encode('look({})', { addBos: false })
  // A prompt of 40 tokens is answered with a call.
  const script = (content: readonly number[]) => call[content.length - 40]
  const backend = new FakeBackend({ clock, slots: 2, stepMs: () => 10, script })
  const use = { 'kv-cache-manager': 'plain' }
  let seen: SchedulerState['programs']
  const policy = policyOf((state) => {
    seen = state.programs
    return firstComeFirstServed.plan(state)
  })
  const engine = createEngine({ backend, policy, clock, registry, use })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (length: number, session: string) =>
    await submit({ ...greedy(promptOf(length), 4), session })
  const submit = async (request: GenerateRequest) => {
    await drive(clock, collect(client.submit(request)))
    const paused = seen?.paused(clock.now()) ?? []
    return new Map(paused.map(({ program, lossMs }) => [program.id, [program.keptTokens, lossMs]]))
  }
  await ask(60, 'a')
  const [kept, lossMs = 0] = (await ask(30, 'b')).get('b') ?? []
  t.equal(kept, 33)
  t.ok(lossMs > 0, `${lossMs} ms to compute them`)
  t.notOk((await ask(20, 'c')).has('b'), 'its slot is lost, as this manager gives the first one')

  const look = { type: 'function', function: { name: 'look', arguments: {} } } as const
  const result = { role: 'assistant', content: '', tool_calls: [look] } as const
  await submit({ prompt: { messages: [result] }, session: 'c', maxTokens: 1 })
  const begun = await submit({ ...greedy(promptOf(40), call.length), id: 'd' })
  t.equal(begun.get('d')?.[0], 39 + call.length, 'the slot of a program that begins with a call')
})

t.test('a manager that fails is named, not the policy or the backend', async (t) => {
  const boom = () => {
    throw new Error('boom')
  }
  let fault: Partial<Plain> = {}
  const manager = ({ get }: PartContext<KVCacheManager>) => {
    const plain = new Plain(get(BACKEND), get(PREFIX_INDEX))
    return Object.assign(plain, {
      lookUp: (one: Sequence) => fault.lookUp?.(one) ?? 0,
      acquire: (one: Sequence) => fault.acquire?.(one) ?? Plain.prototype.acquire.call(plain, one),
    })
  }
  const registry = new PluginRegistry()
  registry.provide(KV_CACHE_MANAGER, 'mine', manager)
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots: 2, stepMs: () => 10 })
  const use = { 'kv-cache-manager': 'mine' }
  const policy = firstComeFirstServed
  const fallbackPolicy = () => policyOf(boom)
  const engine = createEngine({ backend, policy, fallbackPolicy, clock, registry, use })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = () => drive(clock, collect(client.submit(greedy(promptOf(30), 2))))
  for (const [wrong, message] of [
    [{ lookUp: boom }, ' "mine": lookUp: boom'],
    [{ acquire: boom }, ' "mine": acquire: boom'],
    [{ acquire: async () => boom() }, ' "mine": acquire: boom'],
    [
      { acquire: () => new Promise<never>(() => {}) },
      ' "mine": acquire: it has not ended after 60 s',
    ],
    [{ acquire: async () => {} }, ': acquire gave no slot'],
  ] as const) {
    fault = wrong
    const { error } = await ask()
    t.match(error, { code: 'plugin_invalid', message: `kv-cache-manager${message}` })
    fault = {}
    t.equal((await ask()).end?.reason, 'length', 'the next request is served')
  }
  t.equal(engine.scheduler().fallback, undefined)
})
