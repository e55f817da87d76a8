import {
  type Batching,
  type BatchingDefinition,
  type Order,
  type OrderDefinition,
  type Plan,
  type SchedulerPolicy,
  type SchedulerState,
  type SequenceView,
  defineBatching,
  defineOrder,
} from '@cllm/core'
import { firstComeFirstServed, testBatching, testOrder, testPolicy } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { RecordingContext } from '../recording-context.js'

/** A plain policy whose plans are changed. */
function simple(
  change: (plan: Plan, state: SchedulerState) => Plan = (plan) => plan,
): SchedulerPolicy {
  return {
    name: 'simple',
    plan: (state) => change(firstComeFirstServed.plan(state), state),
  }
}

await testPolicy(t, () => simple())

await testPolicy(t, () => {
  // Waits for company, gives up a slot now and then, and refuses what is late.
  let plans = 0
  return simple((plan, state) => {
    plans++
    const [waiting] = state.waiting
    const isAlone = state.running.length === 0 && state.waiting.size === 1 && waiting !== undefined
    if (isAlone && state.now < waiting.arrival + 50) {
      return { ...plan, admit: [], run: [], wakeAt: waiting.arrival + 50 }
    }
    const late = waiting?.deadline !== undefined && waiting.deadline < state.now - 2000
    if (late) {
      const run = plan.run.filter(({ id }) => !plan.admit.includes(id))
      return { ...plan, admit: [], run, reject: [{ id: waiting.id, reason: 'too late' }] }
    }
    const victim = state.running.at(-1)
    if (plans % 7 > 0 || victim === undefined || state.running.length < 2) return plan
    const run = plan.run.filter(({ id }) => id !== victim.id)
    return { ...plan, preempt: [victim.id], run }
  })
})

// Wakes when programs are expected to return, so what it is told of their pauses is in its plans.
await testPolicy(t, () =>
  simple((plan, { programs, running, waiting: [first], now }) => {
    const paused = programs?.paused(now) ?? []
    const latest = (first?.arrival ?? 0) + 50
    if (running.length > 0 || paused.length === 0 || now >= latest) return plan
    const rate = paused.reduce((sum, { returnRate }) => sum + returnRate, 0)
    return { ...plan, admit: [], run: [], wakeAt: Math.min(latest, now + 1 / rate) }
  }),
)

/** Takes requests off a list of its own when it names them: one that is not given its slot is lost. */
function forgetful(): SchedulerPolicy {
  const queue: SequenceView[] = []
  return {
    name: 'forgetful',
    plan(state) {
      const named: SequenceView[] = []
      while (named.length < state.freeSlots && queue.length > 0) {
        const next = queue.shift()!
        if (state.waiting.has(next.id)) named.push(next)
      }
      const { size } = state.waiting
      const waiting = { size, has: () => true, [Symbol.iterator]: () => named.values() }
      return firstComeFirstServed.plan({ ...state, waiting })
    },
    observe(event) {
      if (event.type === 'queued' || event.type === 'preempted') queue.push(event.request)
    },
  }
}

const broken: [string, RegExp, () => SchedulerPolicy][] = [
  [
    'an unknown id',
    /expect ids of waiting requests, instead got "who"/,
    () => simple((plan) => ({ ...plan, admit: [...plan.admit, 'who'] })),
  ],
  [
    'admitting twice',
    /"request-\d+" is admitted or rejected twice/,
    () => simple((plan) => ({ ...plan, admit: [...plan.admit, ...plan.admit] })),
  ],
  [
    'more than there are slots',
    /it admits \d+ requests to \d free slots/,
    () => simple((plan, { waiting }) => ({ ...plan, admit: [...waiting].map(({ id }) => id) })),
  ],
  [
    'preempting what waits',
    /preempt expects ids of running requests/,
    () => simple((plan) => ({ ...plan, preempt: plan.admit })),
  ],
  [
    'preempting twice',
    /preempt names a request twice/,
    () =>
      simple((plan, { running: [victim], freeSlots }) =>
        victim === undefined || freeSlots > 0
          ? plan
          : {
              ...plan,
              preempt: [victim.id, victim.id],
              run: plan.run.filter(({ id }) => id !== victim.id),
            },
      ),
  ],
  [
    'refusing without a reason',
    /rejected without a reason/,
    () =>
      simple((plan) => ({
        ...plan,
        admit: [],
        run: [],
        reject: plan.admit.map((id) => ({ id, reason: '' })),
      })),
  ],
  [
    'running what waits',
    /run expects running or just admitted/,
    () => simple((plan) => ({ ...plan, admit: [] })),
  ],
  [
    'running twice',
    /"request-\d+" runs twice/,
    () => simple((plan) => ({ ...plan, run: [...plan.run, ...plan.run] })),
  ],
  [
    'no tokens',
    /a whole number of tokens from 1, instead got 0/,
    () => simple((plan) => ({ ...plan, run: plan.run.map(({ id }) => ({ id, tokens: 0 })) })),
  ],
  [
    'too many tokens',
    /it runs \d+ tokens, a step takes/,
    () =>
      simple((plan, { running, waiting }) => ({
        ...plan,
        run: [...running, ...waiting]
          .filter(({ id }) => plan.run.some((part) => part.id === id))
          .map(({ id, remainingTokens }) => ({ id, tokens: remainingTokens })),
      })),
  ],
  [
    'mixed groups',
    /of another step group/,
    () =>
      simple((plan, { running, limits }) => ({
        ...plan,
        admit: running.length > 0 ? [] : plan.admit,
        run:
          running.length > 0
            ? running.slice(0, limits.batchSize).map(({ id }) => ({ id, tokens: 1 }))
            : plan.run,
      })),
  ],
  [
    'stalling',
    /1 requests want to go on, it runs none/,
    () =>
      simple((plan, { running }) =>
        running.length === 1 ? { ...plan, admit: [], run: [] } : plan,
      ),
  ],
  [
    'waking at once',
    /it runs none and names no later time/,
    () => simple((plan, { now }) => ({ ...plan, admit: [], run: [], wakeAt: now })),
  ],
  [
    'waking for ever',
    /do not end in/,
    () => simple((plan, { now }) => ({ ...plan, admit: [], run: [], wakeAt: now + 1 })),
  ],
  [
    'holding the slots of programs for ever',
    /do not end in/,
    () =>
      simple((plan, { programs, running, now }) => {
        const holds = running.length === 0 && (programs?.paused(now).length ?? 0) > 0
        return holds ? { ...plan, admit: [], run: [], wakeAt: now + 1 } : plan
      }),
  ],
  [
    'thrashing',
    /do not end in/,
    () =>
      simple((plan, { running, waiting }) => {
        const [next] = waiting
        if (running.length === 0 || next === undefined) return plan
        const preempt = running.map(({ id }) => id)
        return { ...plan, preempt, admit: [next.id], run: [{ id: next.id, tokens: 1 }] }
      }),
  ],
  [
    'changing the state',
    /Cannot (assign|add|set)|object is not extensible|read only/,
    () =>
      simple((plan, { running }) => {
        for (const request of running) Object.assign(request, { priority: 9 })
        return plan
      }),
  ],
  [
    'chance',
    /different plans/,
    () =>
      // eslint-disable-next-line no-restricted-properties -- the defect that is to be found
      simple((plan) => ({
        ...plan,
        run: plan.run.map(({ id, tokens }) => ({
          id,
          tokens: Math.ceil(tokens * Math.random()) || 1,
        })),
      })),
  ],
  [
    'a name that changes',
    /equal policies have one name/,
    () => ({
      ...simple(),
      name: `simple-${count++}`,
    }),
  ],
  [
    'options that JSON loses',
    /options survive JSON/,
    () => ({ ...simple(), options: { limit: Infinity } }),
  ],
  [
    'starvation',
    /2000\d tokens of later requests were computed before "disliked"/,
    () => ({
      name: 'shortest-first',
      plan(state) {
        const waiting = [...(state.freeSlots > 0 ? state.waiting : [])]
        const shortest = waiting.sort((a, b) => a.remainingTokens - b.remainingTokens)
        const { size } = state.waiting
        const sorted = { size, has: () => true, [Symbol.iterator]: () => shortest.values() }
        return firstComeFirstServed.plan({ ...state, waiting: sorted })
      },
    }),
  ],
  [
    'a time to wake that is none, beside what runs',
    /wakeAt expects a time in milliseconds, instead got Infinity/,
    () => simple((plan) => ({ ...plan, wakeAt: Infinity })),
  ],
  [
    'half a draft',
    /a whole number of drafts from 0, instead got 0.5/,
    () => simple((plan) => ({ ...plan, run: plan.run.map((one) => ({ ...one, drafts: 0.5 })) })),
  ],
  [
    'more with its drafts than a step takes',
    /it runs \d+ tokens, a step takes/,
    () =>
      simple((plan, { running, limits }) => {
        const drafts = (id: string) =>
          running.find((one) => one.id === id)?.draft === undefined ? 0 : limits.batchSize
        return { ...plan, run: plan.run.map((one) => ({ ...one, drafts: drafts(one.id) })) }
      }),
  ],
  ['forgetting what it has named once', /admits again/, forgetful],
  [
    'putting off without end',
    /12 of 12 requests do not end in \d+ plans; admitted in vain were none/,
    () => simple((plan, { now }) => ({ ...plan, admit: [], run: [], wakeAt: now + 1 })),
  ],
  [
    'looking at all that waits',
    /1\d{3} of 1\d{3} waiting requests were looked at while no slot is free/,
    () => simple((plan, { waiting }) => ([...waiting].length < 0 ? { ...plan, admit: [] } : plan)),
  ],
  [
    'sorting all that waits, several times',
    /a plan takes [\d.]+ ms, at most [\d.]+/,
    () =>
      simple((plan, { waiting }) => {
        if (plan.admit.length === 0) return plan
        const sort = () => [...waiting].sort((a, b) => b.id.localeCompare(a.id))
        const sorted = Array.from({ length: 12 }, sort)
        return sorted.length < 0 ? { ...plan, admit: [] } : plan
      }),
  ],
]
let count = 0

// The load that shows a defect need not be the smallest.
const settings = fc.readConfigureGlobal()
fc.configureGlobal({ ...settings, endOnFailure: true })
t.teardown(() => fc.configureGlobal(settings))

t.test('the suite finds', async (t) => {
  for (const [defect, message, make] of broken) {
    const recording = new RecordingContext(message)
    await testPolicy(recording, make)
    t.match(recording.failures.join('\n'), message, defect)
  }
})

t.test('the suite finds idling where it is not claimed', async (t) => {
  const late = () =>
    simple((plan, { running, waiting, now }) => {
      const [first] = waiting
      if (running.length > 0 || first === undefined || now >= first.arrival + 50) return plan
      return { ...plan, admit: [], run: [], wakeAt: first.arrival + 50 }
    })
  for (const [maxIdleMs, failures] of [
    [50, 0],
    [49, 1],
  ] as const) {
    const recording = new RecordingContext()
    await testPolicy(recording, late, { maxIdleMs })
    t.equal(recording.failures.length, failures)
    if (failures > 0)
      t.match(recording.failures.join(), 'nothing is computed for 50 ms, at most 49')
  }
})

const order = (change: Partial<Order> = {}): OrderDefinition =>
  defineOrder({
    name: 'as-they-came',
    doc: 'First come, first served.',
    create: () => ({ next: ({ waiting }) => waiting, ...change }),
  })

/** Prompts and tokens by admission, as far as the batch goes. */
const simpleBatching = (): Batching => ({
  plan({ running, freeSlots, limits }, next) {
    let left = limits.batchSize
    let slots = Math.min(freeSlots, limits.batchSize - running.length)
    const admit: string[] = []
    const run: { id: string; tokens: number }[] = []
    const add = ({ id, remainingTokens }: SequenceView, most = remainingTokens) => {
      const tokens = Math.min(most, left)
      if (tokens > 0) run.push({ id, tokens })
      left -= tokens
    }
    for (const request of running) add(request)
    if (slots <= 0 || left === 0) return { admit, run }
    for (const request of next) {
      admit.push(request.id)
      add(request)
      slots--
      if (slots === 0 || left === 0) break
    }
    return { admit, run }
  },
})
const batching = (change: (batching: Batching) => Partial<Batching> = () => ({})) =>
  defineBatching({
    name: 'simple',
    doc: 'As far as the batch goes.',
    create: () => ({ ...simpleBatching(), ...change(simpleBatching()) }),
  })

const claims = { runs: 30, maxOvertaking: 0, maxIdleMs: 0 }
await testOrder(t, order(), [batching()], claims)
await testBatching(t, batching(), [order()], () => ({ ...claims, options: { unknown: 1 } }))

let calls = 0
const brokenOrders: [string, RegExp, OrderDefinition][] = [
  ['a name with a plus', /neither "\+" nor spaces/, { ...order(), name: 'a+b' }],
  [
    'holding the slots of programs while anything runs',
    /a slot waits \d+ plans for a program, at most \d+/,
    order({ hold: ({ programs, now }) => programs?.paused(now).length ?? 0 }),
  ],
  ['no doc', /is registered as \{ name, doc/, { ...order(), doc: '' }],
  ['a doc of two lines', /its doc is one line/, { ...order(), doc: 'One.\nTwo.' }],
  [
    'an option without a default',
    /options have defaults/,
    { ...order(), options: { shape: { size: {} }, parse: () => ({}) } },
  ],
  [
    'naming a request twice',
    /next names "request-\d+" twice/,
    order({
      *next({ waiting }) {
        for (const request of waiting) yield* [request, request]
      },
    }),
  ],
  [
    'naming what runs',
    /next names waiting requests only/,
    order({
      *next({ waiting, running }) {
        yield* running
        yield* waiting
      },
    }),
  ],
  [
    'leaving requests out',
    /next ends after \d+ of \d+ waiting requests/,
    order({
      *next({ waiting }) {
        for (const request of waiting) if (request.priority >= 0) yield request
      },
    }),
  ],
  [
    'naming nobody',
    /next names waiting requests only, instead got "undefined"/,
    order({ next: () => [null as never] }),
  ],
  [
    'a next without a return',
    /next: expected an iterable .*, got undefined/,
    order({ next: () => undefined as never }),
  ],
  [
    'a next that is null',
    /next: expected an iterable .*, got null/,
    order({ next: () => null as never }),
  ],
  [
    'the urgent first, without end',
    /tokens of later requests were computed before/,
    order({
      *next({ waiting }) {
        yield* [...waiting].sort((a, b) => b.priority - a.priority)
      },
    }),
  ],
  [
    'sorting when nothing is asked for',
    /waiting requests were looked at/,
    order({
      next({ waiting }) {
        return [...waiting]
      },
    }),
  ],
  [
    'preempting what waits',
    /preempt expects ids of running requests/,
    order({ preempt: ({ waiting }) => [...waiting] }),
  ],
  [
    'state outside of create',
    /different plans/,
    order({
      *next({ waiting }) {
        yield* calls++ % 2 === 0 ? waiting : [...waiting].reverse()
      },
    }),
  ],
]

const brokenBatchings: [string, RegExp, BatchingDefinition][] = [
  [
    'an order of its own',
    /requests are admitted as next has them/,
    batching((one) => ({
      plan: (state, next) => one.plan(state, [...next].reverse()),
    })),
  ],
  [
    'reading all that wait',
    /\d+ requests of next are read, at most \d+/,
    batching((one) => ({ plan: (state, next) => one.plan(state, [...next]) })),
  ],
  [
    'a plan without a return',
    /it expects the lists admit, preempt, reject and run/,
    batching(() => ({ plan: () => undefined as never })),
  ],
  [
    'more than the batch takes',
    /it runs \d+ tokens, a step takes/,
    batching((one) => ({
      plan: (state, next) =>
        one.plan({ ...state, limits: { ...state.limits, batchSize: 1000 } }, next),
    })),
  ],
  [
    'preempting',
    /a step is admit, run, wakeAt, instead got "preempt"/,
    batching((one) => ({
      plan: (state, next) => ({ ...one.plan(state, next), preempt: [] }),
    })),
  ],
  [
    'idling',
    /it runs none and names no later time/,
    batching((one) => ({
      plan: (state, next) =>
        state.running.length === 1 ? { admit: [], run: [] } : one.plan(state, next),
    })),
  ],
]

t.test('the suite finds what is wrong with an order', async (t) => {
  for (const [defect, message, broken] of brokenOrders) {
    const recording = new RecordingContext(message)
    await testOrder(recording, broken, [batching()], { runs: 30, maxOvertaking: 2000 })
    t.match(recording.failures.join('\n'), message, defect)
  }
})

t.test('the suite finds what is wrong with a batching', async (t) => {
  for (const [defect, message, broken] of brokenBatchings) {
    const recording = new RecordingContext(message)
    await testBatching(recording, broken, [order()], { runs: 30 })
    t.match(recording.failures.join('\n'), message, defect)
  }
})
