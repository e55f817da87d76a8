import {
  createEngine,
  defaultSampling,
  type Engine,
  type GenerateRequest,
  type Plan,
  type SchedulerEvent,
  type SchedulerPolicy,
  type SchedulerState,
  SimulatedClock,
  type TokenId,
  nextNumber,
  silentLogger,
} from '@cllm/core'
import { FakeBackend, runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import {
  collect,
  counting,
  expectedTokens,
  greedy,
  leftovers,
  nothingLeft,
  policyOf,
  promptOf,
  type Rig,
  rig,
  summarize,
} from '../../rig.js'
import type { EngineCosts } from '../../../src/engine/costs/engine-costs.js'
import type { KVCacheManager } from '../../../src/engine/engine-parts.js'
import { InFlightPrefixSharing } from '../../../src/engine/kv/in-flight-prefix-sharing.js'
import { EngineObservers } from '../../../src/engine/report/engine-observers.js'
import { WaitingQueue } from '../../../src/engine/requests/request-sets.js'
import { sequenceOf } from '../../sequences.js'

const prefix = promptOf(200)
const branch = (family: number): TokenId[] => [...prefix, ...promptOf(9, family)]

/** Eager, and says who was to be seen in each plan. */
function watching(
  plan: (state: SchedulerState) => Plan = (state) => firstComeFirstServed.plan(state),
) {
  const seen: { now: number; waiting: string[]; running: string[] }[] = []
  const policy = policyOf((state) => {
    const ids = (views: Iterable<{ readonly id: string }>) => Array.from(views, ({ id }) => id)
    const waiting = ids(state.waiting)
    t.equal(state.waiting.size, waiting.length, 'its size is what can be seen')
    seen.push({ now: state.now, waiting, running: ids(state.running) })
    return plan(state)
  })
  return { seen, policy }
}

/** Tokens that were computed of prompts and answers. */
const computed = ({ backend }: Rig): number =>
  backend.steps.flatMap(({ batch }) => batch).reduce((sum, { tokens }) => sum + tokens.length, 0)

t.test('followers are not to be seen until the prefix is there', async (t) => {
  const { seen, policy } = watching()
  const made = rig({ slots: 4, batchSize: 50, policy })
  const ids = ['a', 'b', 'c', 'other']
  const prompts = [branch(1), branch(2), branch(3), promptOf(30, 9)]
  const answers = ids.map((id, index) =>
    collect(made.client.submit({ ...greedy(prompts[index] ?? [], 2), id })),
  )
  await runUntilIdle(made.clock, 1005)
  t.match(made.engine.statistics(), { waiting: 3, running: 1 }, 'all who wait are counted')
  const done = await made.run(Promise.all(answers))
  for (const [index, { tokens, end }] of done.entries()) {
    t.same(tokens, expectedTokens(made.backend, prompts[index] ?? [], 2))
    t.equal(end?.usage.cachedTokens, index === 0 || index === 3 ? 0 : 200)
  }
  const whileComputed = seen.filter(({ now }) => now > 1000 && now < 1040)
  t.ok(whileComputed.length > 1)
  for (const { waiting } of whileComputed) t.notOk(waiting.includes('b') || waiting.includes('c'))
  t.match(leftovers(made), nothingLeft)
})

t.test('a leader that goes hands over to a follower', async (t) => {
  for (const how of ['cancelled', 'preempted', 'timeout'] as const) {
    const { policy } = watching((state) => {
      const leader = state.running.find(({ id }) => id === 'a')
      const isDue = how === 'preempted' && leader?.preemptions === 0 && leader.computedTokens >= 100
      return isDue
        ? { admit: [], preempt: ['a'], reject: [], run: [], wakeAt: state.now + 1 }
        : firstComeFirstServed.plan(state)
    })
    const made = rig({ slots: 3, batchSize: 50, policy })
    const answers = ['a', 'b', 'c'].map((id, family) => {
      const timeoutMs = how === 'timeout' && id === 'a' ? { timeoutMs: 15 } : {}
      return collect(made.client.submit({ ...greedy(branch(family), 2), id, ...timeoutMs }))
    })
    if (how === 'cancelled') made.clock.at(1015, () => made.client.cancel('a'))
    const [first, ...others] = await made.run(Promise.all(answers))
    if (how === 'preempted') t.same(first?.tokens, expectedTokens(made.backend, branch(0), 2))
    else t.equal(first?.error?.code, how)
    for (const [index, { tokens }] of others.entries()) {
      t.same(tokens, expectedTokens(made.backend, branch(index + 1), 2))
    }
    t.ok(computed(made) < 200 + 100 + 3 * 12, `${how}: ${computed(made)} tokens were computed`)
    t.match(leftovers(made), nothingLeft)
  }
})

t.test('a leader that does not get on is not waited for longer than is said', async (t) => {
  const { policy } = watching((state) => {
    const leader = state.running.find(({ id }) => id === 'a')
    if (leader === undefined || leader.computedTokens < 50) return firstComeFirstServed.plan(state)
    // whoever it is, only others may run
    const running = state.running.filter(({ id }) => id !== 'a')
    const plan = firstComeFirstServed.plan({ ...state, running })
    return plan.run.length > 0
      ? plan
      : { admit: [], preempt: [], reject: [], run: [], wakeAt: state.now + 1e6 }
  })
  const made = rig({ slots: 3, batchSize: 50, policy })
  const leader = collect(made.client.submit({ ...greedy(branch(0), 2), id: 'a' }))
  const follower = collect(made.client.submit({ ...greedy(branch(1), 2), id: 'b' }))
  const { end, tokens } = await made.run(follower)
  t.same(tokens, expectedTokens(made.backend, branch(1), 2))
  const { queueMs = 0 } = end?.timings ?? {}
  t.ok(queueMs > 1000 && queueMs < 6000, `it waited ${queueMs} ms`)
  made.client.cancel('a')
  t.equal((await made.run(leader)).error?.code, 'cancelled')
})

t.test('a request whose file is being encoded is not held a second time', (t) => {
  const [leader, waits] = ['a', 'b'].map((id, family) => sequenceOf(branch(family), { id }))
  const waiting = new WaitingQueue()
  const observers = new EngineObservers(silentLogger)
  const told: string[] = []
  observers.add({ onHeld: () => told.push('held'), onReleased: () => told.push('released') })
  const kv = { producerOf: () => undefined as object | undefined }
  const costs = { steps: { tokensMs: () => 10 } } as unknown as EngineCosts
  const sharing = new InFlightPrefixSharing(
    kv as unknown as KVCacheManager,
    costs,
    waiting,
    observers,
  )
  waiting.add(waits!)
  sharing.onWaiting(waits!, 0)
  waiting.hold(waits!)
  waiting.encoding.add(waits!)
  kv.producerOf = () => ({ sequence: leader, shared: 200 })
  sharing.onAdmitted(leader!, 0)
  sharing.onAdvanced(leader!, 200, 5)
  t.equal(waiting.has('b'), false, 'it is not to be seen before its file is encoded')
  t.same(told, [])
  waiting.unhold([waits!])
  t.equal(sharing.defer(waits!, 6), true, 'and then it waits for a prefix as others do')
  t.end()
})

t.test('a held request can be cancelled, and one that the policy insists on runs', async (t) => {
  let insists = false
  const { policy } = watching((state) => {
    if (!insists || state.running.length !== 1) return firstComeFirstServed.plan(state)
    insists = false
    const run = [{ id: 'b', tokens: 10 }]
    return { admit: ['b'], preempt: [], reject: [], run }
  })
  const made = rig({ slots: 4, batchSize: 50, policy })
  const answers = ['a', 'b', 'c'].map((id, family) =>
    collect(made.client.submit({ ...greedy(branch(family), 2), id })),
  )
  await runUntilIdle(made.clock, 1005)
  made.client.cancel('c')
  insists = true
  const [a, b, c] = await made.run(Promise.all(answers))
  t.same(a?.tokens, expectedTokens(made.backend, branch(0), 2))
  t.same(b?.tokens, expectedTokens(made.backend, branch(1), 2))
  t.ok((b?.end?.usage.cachedTokens ?? 200) < 200, 'it did not wait')
  t.equal(c?.error?.code, 'cancelled')
  t.match(leftovers(made), nothingLeft)
})

t.test('no request waits for or reuses a prefix that it may not share', async (t) => {
  const settings: [string, Partial<GenerateRequest>, Partial<GenerateRequest>, boolean, number][] =
    [
      ['tenants share', { tenant: 'a' }, { tenant: 'b' }, false, 200],
      ['or do not', { tenant: 'a' }, { tenant: 'b' }, true, 0],
      ['but with themselves', { tenant: 'a' }, { tenant: 'a' }, true, 200],
      ['without cache', { cache: false }, {}, false, 0],
      ['with somebody without', {}, { cache: false }, false, 0],
    ]
  for (const [name, one, two, isolateTenants, cached] of settings) {
    const made = rig({ slots: 2, batchSize: 50, options: { isolateTenants } })
    const both = await made.run(
      Promise.all(
        [one, two].map((more, family) =>
          collect(made.client.submit({ ...greedy(branch(family), 2), ...more })),
        ),
      ),
    )
    t.same(
      both.map(({ end }) => end?.usage.cachedTokens),
      [0, cached],
      name,
    )
    t.match(leftovers(made), nothingLeft)
  }
  const alone = rig({ slots: 1, options: { isolateTenants: true } })
  const short = promptOf(12)
  await alone.ask({ ...greedy(short, 2), tenant: 'a' })
  const other = await alone.ask({ ...greedy(short, 2), tenant: 'b' })
  t.equal(other.end?.usage.cachedTokens, 0, 'not even a few tokens in the same slot')

  const adapters = rig({ slots: 2 })
  const cached: (number | undefined)[] = []
  for (const stepGroup of ['lora', 'lora', 'other']) {
    const { end } = await adapters.ask({ ...greedy(branch(1), 2), stepGroup })
    cached.push(end?.usage.cachedTokens)
  }
  t.same(cached, [0, 208, 0], 'nor what another step group computed')
})

interface Trial {
  readonly id: string
  readonly request: GenerateRequest
  readonly prompt: readonly TokenId[]
  readonly arrival: number
  readonly cancelAt: number | undefined
}

const trials = fc.array(
  fc.record({
    shared: fc.constantFrom(0, 70, 130, 200),
    family: fc.nat(1),
    own: fc.array(fc.integer({ min: 4, max: 299 }), { minLength: 1, maxLength: 20 }),
    maxTokens: fc.integer({ min: 1, max: 12 }),
    temperature: fc.constantFrom(0, 1),
    penalty: fc.constantFrom(0, 0.7),
    cache: fc.constantFrom(true, true, true, false),
    tenant: fc.constantFrom('a', 'b'),
    arrival: fc.nat(120),
    cancelAt: fc.option(fc.nat(300), { freq: 5, nil: undefined }),
  }),
  { minLength: 2, maxLength: 10 },
)

/** Runs, pauses, admits and preempts at random; checks what each slot holds against the backend. */
class Reckless implements SchedulerPolicy {
  readonly name = 'reckless'
  readonly wrong: string[] = []
  readonly computed = new Map<string, Set<number>>()
  readonly preempted = new Set<string>()
  engine: Engine | undefined

  constructor(
    private state: number,
    private readonly backend: FakeBackend,
    private readonly prompts: ReadonlyMap<string, readonly TokenId[]>,
  ) {}

  #next(below: number): number {
    this.state = nextNumber(this.state)
    return Math.floor((this.state / 2 ** 32) * below)
  }

  plan(state: SchedulerState): Plan {
    this.#compare()
    const preempt = state.running.filter(() => this.#next(12) === 0).map(({ id }) => id)
    const running = state.running.filter(({ id }) => !preempt.includes(id) && this.#next(4) > 0)
    const plan = firstComeFirstServed.plan({
      ...state,
      running,
      freeSlots: this.#next(4) > 0 ? state.freeSlots : 0,
    })
    return { ...plan, preempt, wakeAt: state.now + 1 + this.#next(9) }
  }

  observe(event: SchedulerEvent): void {
    if (event.type === 'preempted') this.preempted.add(event.request.id)
    if (event.type !== 'step') return
    for (const { request, tokens } of event.parts) {
      const positions = this.computed.get(request.id) ?? new Set()
      for (let index = 0; index < tokens; index++) positions.add(request.computedTokens + index)
      this.computed.set(request.id, positions)
    }
  }

  #compare(): void {
    for (const { slot, request, tokens } of this.engine?.statistics().slots ?? []) {
      const content = this.backend.content(slot)
      if (content.length !== tokens)
        this.wrong.push(`slot ${slot}: ${content.length}, not ${tokens}`)
      const prompt = this.prompts.get(request ?? '') ?? []
      const own = content.slice(0, prompt.length)
      if (request !== undefined && own.join() !== prompt.slice(0, own.length).join()) {
        this.wrong.push(`slot ${slot} holds what is not its request's`)
      }
    }
  }
}

t.test('slots hold what they are said to hold, and every hit is one', async (t) => {
  const seen = { hits: 0, moves: 0, preemptions: 0, isolated: 0 }
  const machine = fc.record({
    slots: fc.integer({ min: 1, max: 5 }),
    batchSize: fc.constantFrom(16, 64, 256),
    keepMultipleOf: fc.constantFrom(1, 1, 16),
    copyFails: fc.nat(3),
    isolateTenants: fc.boolean(),
    seed: fc.nat(),
  })
  const property = fc.asyncProperty(machine, trials, async (given, all) => {
    const clock = new SimulatedClock(1000)
    let copies = 0
    class Fragile extends FakeBackend {
      override async copyPrefix(from: number, to: number, length: number): Promise<number> {
        if (++copies === given.copyFails) throw new Error('no copy')
        return await super.copyPrefix(from, to, length)
      }
    }
    const backend = new Fragile({
      ...given,
      clock,
      contextSize: 240,
      stepMs: (batch) => 2 + batch.reduce((sum, { tokens }) => sum + tokens.length, 0) / 10,
      copyMs: () => 1,
      layoutMs: (used) => 3 * used.filter((slot) => slot > 0 && !used.includes(slot - 1)).length,
    })
    const requests: Trial[] = all.map((trial, index) => {
      const prompt = [...promptOf(trial.shared, trial.family), ...trial.own]
      const { maxTokens, temperature, penalty: frequencyPenalty, cache, tenant } = trial
      const sampling = { temperature, frequencyPenalty, ignoreEos: true, seed: index }
      const request = { prompt: { tokens: prompt }, maxTokens, sampling, cache, tenant }
      return { ...trial, id: `r${index}`, request, prompt }
    })
    const prompts = new Map(requests.map(({ id, prompt }) => [id, prompt]))
    const policy = new Reckless(given.seed, backend, prompts)
    const options = { isolateTenants: given.isolateTenants }
    const engine = createEngine({ backend, policy, clock, random: counting(), options })
    policy.engine = engine
    const events = new Map<string, Parameters<typeof summarize>[0][number][]>()
    const failed = new Set<string>()
    engine.observe({
      onEvents: (batch) => {
        for (const { id, event } of batch) {
          if (event.type === 'error') failed.add(event.error.code)
          else events.set(id, [...(events.get(id) ?? []), event])
        }
      },
    })
    for (const { id, request, arrival, cancelAt } of requests) {
      clock.at(1000 + arrival, () => engine.submit(id, request))
      if (cancelAt !== undefined) clock.at(1000 + arrival + cancelAt, () => engine.cancel(id))
    }
    await runUntilIdle(clock, 1130)
    await runUntilIdle(clock)

    const wrong = [...policy.wrong]
    const tenants = new Map<string, boolean>()
    for (const { id, request, prompt, cancelAt } of requests) {
      const { end, tokens } = summarize(events.get(id) ?? [])
      if (end === undefined) {
        if (cancelAt === undefined) wrong.push(`${id} has no end`)
        continue
      }
      const params = { ...defaultSampling, seed: 0, ...request.sampling }
      const room = Math.min(request.maxTokens ?? 0, 241 - prompt.length)
      const alone = backend.continuation(prompt, params, room)
      if (tokens.join() !== alone.join()) wrong.push(`${id} says something else`)
      const own = [...(policy.computed.get(id) ?? [])].filter((at) => at < prompt.length)
      const { cachedTokens } = end.usage
      const never = prompt.length - own.length
      // After a preemption it may have found tokens behind others that it had computed.
      const isTrue = policy.preempted.has(id) ? cachedTokens <= never : cachedTokens === never
      if (!isTrue) {
        wrong.push(`${id} computed ${own.length} of ${prompt.length}, says ${cachedTokens} cached`)
      }
      if (cachedTokens > 0) seen.hits++
      if (request.cache === false && cachedTokens > 0) wrong.push(`${id} took without cache`)
      tenants.set(request.tenant ?? '', true)
    }
    failed.delete('cancelled')
    const problems = { ...(leftovers({ backend, engine }) as object), wrong, failed: [...failed] }
    const fine = { ...nothingLeft, wrong: [], failed: [] }
    if (JSON.stringify(problems) !== JSON.stringify(fine)) throw new Error(JSON.stringify(problems))
    seen.preemptions += engine.statistics().preemptions
    if (given.isolateTenants && tenants.size > 1) seen.isolated++
    for (const [index, operation] of backend.operations.entries()) {
      const next = backend.operations[index + 1]
      if (
        operation.type === 'copyPrefix' &&
        next?.type === 'release' &&
        next.slot === operation.from
      )
        seen.moves++
    }
    await engine.close()
  })
  await fc.assert(property, { numRuns: 150 })
  for (const [what, count] of Object.entries(seen)) t.ok(count > 0, `${what}: ${count}`)
})
