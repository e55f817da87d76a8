import type {
  BatchingDefinition,
  OrderDefinition,
  PolicyDefinition,
  RouterDefinition,
} from '../contracts/definition.js'

/** Types an order's `create` by its options, and returns the definition as it is. */
export function defineOrder<Options>(order: OrderDefinition<Options>): OrderDefinition<Options> {
  return order
}

/** Types a batching's `create` by its options, and returns the definition as it is. */
export function defineBatching<Options>(
  batching: BatchingDefinition<Options>,
): BatchingDefinition<Options> {
  return batching
}

/** Types a policy's `create` by its options, and returns the definition as it is. */
export function definePolicy<Options>(
  policy: PolicyDefinition<Options>,
): PolicyDefinition<Options> {
  return policy
}

/** Types a router's `create` by its options, and returns the definition as it is. */
export function defineRouter<Options>(
  router: RouterDefinition<Options>,
): RouterDefinition<Options> {
  return router
}
