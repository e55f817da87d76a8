import assert from 'node:assert/strict'
import {
  type BatchingDefinition,
  type OrderDefinition,
  checkHalf,
  composePolicy,
  nextOf,
  type Batching,
  type Order,
  type SequenceView,
  type WaitingView,
} from '@cllm/core'
import { checkDefined, type TestContext } from '../test-context.js'
import { testPolicy, type TestPolicyOptions } from './test-policy.js'

/** What a policy of two halves claims, and the options that it is tested with. */
export interface PairClaims extends TestPolicyOptions {
  /** Each policy gets the options that it has. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** The claims of every policy, or of the policy with the half of this name. */
export type ClaimsByHalf = PairClaims | ((name: string) => PairClaims)

/**
 * The conformance suite of orders: {@link testPolicy} of the policy with each batching, and `next`
 * names every waiting request once. `batchings` of `@cllm/scheduler` are the built-in ones.
 */
export async function testOrder(
  t: TestContext,
  order: OrderDefinition,
  batchings: readonly BatchingDefinition[],
  claims: ClaimsByHalf = {},
): Promise<void> {
  await t.test(`order ${order.name}`, async (t) => {
    await checkDefined(t, 'order', order, () => checkHalf('order', order))
    for (const batching of batchings) await testPair(t, batching, order, claims, batching.name)
  })
}

/**
 * The conformance suite of batchings: {@link testPolicy} of the policy with each order. Requests are
 * admitted as `next` has them, at most one more is read, and the order keeps its say of who is
 * preempted and refused. `orders` of `@cllm/scheduler` are the built-in ones.
 */
export async function testBatching(
  t: TestContext,
  batching: BatchingDefinition,
  orders: readonly OrderDefinition[],
  claims: ClaimsByHalf = {},
): Promise<void> {
  await t.test(`batching ${batching.name}`, async (t) => {
    await checkDefined(t, 'batching', batching, () => checkHalf('batching', batching))
    for (const order of orders) await testPair(t, batching, order, claims, order.name)
  })
}

async function testPair(
  t: TestContext,
  batching: BatchingDefinition,
  order: OrderDefinition,
  claims: ClaimsByHalf,
  other: string,
): Promise<void> {
  const { options = {}, ...rest } = typeof claims === 'function' ? claims(other) : claims
  const names = [batching, order].flatMap((half) => Object.keys(half.options?.shape ?? {}))
  const own = Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name)))
  const checked = [
    { ...batching, create: (given: unknown) => checkedBatching(batching.create(given)) },
    { ...order, create: (given: unknown) => checkedOrder(order.create(given)) },
  ] as const
  await testPolicy(t, () => composePolicy(...checked, own), rest)
}

/** The same order, which throws an `AssertionError` when it breaks the rules of `Order`. */
export function checkedOrder(order: Order): Order {
  return {
    next: (state) => namedOnce(nextOf(order, state), state.waiting),
    reject: (state) => order.reject?.(state) ?? [],
    preempt: (state) => order.preempt?.(state) ?? [],
    victim: (state) => order.victim?.(state),
    hold: (state) => order.hold?.(state) ?? 0,
    arrivalRank: (request) => order.arrivalRank?.(request) ?? 0,
    onServedElsewhere: (services) => order.onServedElsewhere?.(services),
    observe: (event) => order.observe?.(event),
  }
}

function* namedOnce(
  requests: Iterable<SequenceView>,
  waiting: WaitingView,
): Iterable<SequenceView> {
  const named = new Set<string>()
  for (const request of requests) {
    const id = request?.id
    assert(waiting.has(id), `next names waiting requests only, instead got "${id}"`)
    assert(!named.has(id), `next names "${id}" twice`)
    named.add(id)
    yield request
  }
  const { size } = waiting
  assert(named.size === size, `next ends after ${named.size} of ${size} waiting requests`)
}

/** The same batching, which throws an `AssertionError` when it breaks the rules of `Batching`. */
export function checkedBatching(batching: Batching): Batching {
  return {
    inGroups: batching.inGroups === true,
    plan(state, next) {
      const read: string[] = []
      const step = batching.plan(state, recorded(next, read))
      // What is no step at all is found when its plan is checked.
      if (!Array.isArray(step?.admit)) return step
      const { admit } = step
      const [other] = Object.keys(step).filter((key) => !decided.includes(key))
      assert(other === undefined, `a step is ${decided.join(', ')}, instead got "${other}"`)
      assert.deepEqual(admit, read.slice(0, admit.length), 'requests are admitted as next has them')
      const most = admit.length + 1
      assert(read.length <= most, `${read.length} requests of next are read, at most ${most}`)
      return step
    },
    observe: (event) => batching.observe?.(event),
  }
}

/** What a batching decides. */
const decided = ['admit', 'run', 'wakeAt']

function* recorded(requests: Iterable<SequenceView>, read: string[]): Iterable<SequenceView> {
  for (const request of requests) {
    read.push(request.id)
    yield request
  }
}
