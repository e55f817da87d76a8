import type { Plugin } from '../contracts/plugin.js'
import type {
  BackendDefinition,
  BatchingDefinition,
  ModelSchedulerDefinition,
  OrderDefinition,
  PolicyDefinition,
  ProposerDefinition,
  RouterDefinition,
  SamplerDefinition,
} from '../contracts/definition.js'

/** Names a plugin's parts for the compiler and returns it as it is. */
export const definePlugin = <Options>(plugin: Plugin<Options>) => plugin

/** Infers the options of a backend from their schema and returns the definition as it is. */
export const defineBackend = <Options>(backend: BackendDefinition<Options>) => backend

/** Types an order's `create` by its options, and returns the definition as it is. */
export const defineOrder = <Options>(order: OrderDefinition<Options>) => order

/** Types a batching's `create` by its options, and returns the definition as it is. */
export const defineBatching = <Options>(batching: BatchingDefinition<Options>) => batching

/** Types a policy's `create` by its options, and returns the definition as it is. */
export const definePolicy = <Options>(policy: PolicyDefinition<Options>) => policy

/** Types a proposer's `create` by its options, and returns the definition as it is. */
export const defineProposer = <Options>(proposer: ProposerDefinition<Options>) => proposer

/** Types a router's `create` by its options, and returns the definition as it is. */
export const defineRouter = <Options>(router: RouterDefinition<Options>) => router

/** Types a model scheduler's `create` by its options, and returns the definition as it is. */
export const defineModelScheduler = <Options>(scheduler: ModelSchedulerDefinition<Options>) =>
  scheduler

/** Types a sampler's `create` by its options, and returns the definition as it is. */
export const defineSampler = <Options>(sampler: SamplerDefinition<Options>) => sampler
