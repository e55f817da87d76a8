import type { Plugin } from '../contracts/plugin.js'
import type {
  BackendDefinition,
  BatchingDefinition,
  OrderDefinition,
  PolicyDefinition,
  RouterDefinition,
  SamplerDefinition,
} from '../contracts/definition.js'

/** Names a plugin's parts for the compiler and returns it as it is. */
export function definePlugin<Options>(plugin: Plugin<Options>): Plugin<Options> {
  return plugin
}

/** Infers the options of a backend from their schema and returns the definition as it is. */
export function defineBackend<Options>(
  backend: BackendDefinition<Options>,
): BackendDefinition<Options> {
  return backend
}

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

/** Types a sampler's `create` by its options, and returns the definition as it is. */
export function defineSampler<Options>(
  sampler: SamplerDefinition<Options>,
): SamplerDefinition<Options> {
  return sampler
}
