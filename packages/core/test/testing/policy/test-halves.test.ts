import {
  type Batching,
  type BatchingDefinition,
  defineBatching,
  defineOrder,
  type Order,
  type OrderDefinition,
  type SequenceView,
} from '@cllm/core'
import { testBatching, testOrder } from '@cllm/core/testing'
import t from 'tap'
import { RecordingContext } from '../recording-context.js'

const order = (change: Partial<Order> = {}): OrderDefinition =>
  defineOrder({
    name: 'as-they-came',
    doc: 'First come, first served.',
    create: () => ({ next: ({ waiting }) => waiting, ...change }),
  })

/** Prompts and tokens by admission, as far as the batch goes. */
const simple = (): Batching => ({
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
    create: () => ({ ...simple(), ...change(simple()) }),
  })

const claims = { runs: 30, maxOvertaking: 0, maxIdleMs: 0 }
await testOrder(t, order(), [batching()], claims)
await testBatching(t, batching(), [order()], () => ({ ...claims, options: { unknown: 1 } }))

let calls = 0
const brokenOrders: [string, RegExp, OrderDefinition][] = [
  ['a name with a plus', /neither "\+" nor spaces/, { ...order(), name: 'a+b' }],
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
    /preempt names running/,
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
    'more than the batch takes',
    /tokens, batchSize is/,
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
    /a stall/,
    batching((one) => ({
      plan: (state, next) =>
        state.running.length === 1 ? { admit: [], run: [] } : one.plan(state, next),
    })),
  ],
]

t.test('the suite finds what is wrong with an order', async (t) => {
  for (const [defect, message, broken] of brokenOrders) {
    const recording = new RecordingContext()
    await testOrder(recording, broken, [batching()], { runs: 30, maxOvertaking: 2000 })
    t.match(recording.failures.join('\n'), message, defect)
  }
})

t.test('the suite finds what is wrong with a batching', async (t) => {
  for (const [defect, message, broken] of brokenBatchings) {
    const recording = new RecordingContext()
    await testBatching(recording, broken, [order()], { runs: 30 })
    t.match(recording.failures.join('\n'), message, defect)
  }
})
