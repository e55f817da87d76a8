import assert from 'node:assert/strict'
import {
  type BatchingDefinition,
  type Definition,
  type OrderDefinition,
  checkHalf,
  composePolicy,
} from '@cllm/core'
import { checkedBatching, checkedOrder } from './checked-halves.js'
import { check, type TestContext } from '../test-context.js'
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
    await check(t, 'is a definition', () => assertDefinition('order', order))
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
    await check(t, 'is a definition', () => assertDefinition('batching', batching))
    for (const order of orders) await testPair(t, batching, order, claims, order.name)
  })
}

function assertDefinition(kind: string, half: Definition<unknown>): void {
  checkHalf(kind, half)
  assert(!half.doc.includes('\n'), 'its doc is one line')
  const names = Object.keys(half.options?.shape ?? {})
  const defaults: unknown = half.options?.parse({}) ?? {}
  assert.deepEqual(
    Object.keys(defaults as object).toSorted(),
    names.toSorted(),
    'options have defaults',
  )
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
