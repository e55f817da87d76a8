import type { RouterPolicy } from './routing/router-policy.js'
import type { Batching, Order } from './scheduling/policy-halves.js'
import type { ModelScheduler } from './scheduling/model-scheduler.js'
import type { SchedulerPolicy } from './scheduling/scheduler-policy.js'
import type { Protocol } from './transport.js'
import type { Backend } from './model/backend.js'
import type { Proposer } from './model/proposer.js'
import type { LogitProcessor, SamplerContext } from './model/sampler.js'
import type { Clock } from './clock.js'
import type { Logger } from './logger.js'

/** Checks options and fills in defaults; zod's schemas fit. */
export interface OptionsSchema<Options> {
  /** The options with their defaults. Throws on what is wrong. */
  parse(value: unknown): Options
}

/** A schema that knows the names of its options; zod's `z.object` fits. */
export interface ObjectSchema<Options> extends OptionsSchema<Options> {
  /** The schema of each option, by its name. */
  readonly shape: Readonly<Record<string, unknown>>
}

/** A plug-in's part that users choose by name: everything about it in one place. */
export interface Definition<Made, Options = unknown, Context extends readonly unknown[] = []> {
  /** As users write it. A policy's half has neither `+` nor spaces, a protocol neither spaces nor commas. */
  readonly name: string
  /** What it does, in one line: for the tables of the documentation. */
  readonly doc: string
  /** Its options, checked and filled in before `create` gets them. Default: it has none. */
  readonly options?: ObjectSchema<Options>
  /** Makes a new one. Each call must make an equal one. */
  create(options: Options, ...context: Context): Made
}

/** An order that goes with every batching. */
export type OrderDefinition<Options = unknown> = Definition<Order, Options>

/** A batching that goes with every order. */
export type BatchingDefinition<Options = unknown> = Definition<Batching, Options>

/** What a backend gets from the process that it runs in. */
export interface BackendContext {
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * A kind of backend, which users choose by its name in `--backend`. It loads the model: `cllm serve` passes
 * `modelPath`, `modelId`, `slots`, `batchSize` and, where they are set, `contextSize` and `threads`, together
 * with `engine.backend_options`. Without a schema of its options, they are passed on unchecked.
 */
export type BackendDefinition<Options = unknown> = Definition<
  Backend | Promise<Backend>,
  Options,
  [context: BackendContext]
>

/** A sampler that requests choose by its name; made for one request, with the options that this gives. */
export type SamplerDefinition<Options = unknown> = Definition<
  LogitProcessor,
  Options,
  [context: SamplerContext]
>

/** A proposer of draft tokens, named in `--speculative`. */
export type ProposerDefinition<Options = unknown> = Definition<Proposer, Options>

/** A router, named in `--router`: which worker of a cluster gets a request. */
export type RouterDefinition<Options = unknown> = Definition<RouterPolicy, Options>

/** A model scheduler, named in `--model-scheduler`: which models are in memory. */
export type ModelSchedulerDefinition<Options = unknown> = Definition<ModelScheduler, Options>

/** A policy that is not made of two halves. */
export type PolicyDefinition<Options = unknown> = Definition<SchedulerPolicy, Options>

/**
 * A protocol that is served under its name, with everything about it in one place. `Context` is what
 * the server hands to each protocol it makes; `@cllm/http-koa` has its own.
 */
export interface ProtocolDefinition<Options = unknown, Context = unknown> extends Definition<
  Protocol,
  Options,
  [context: Context]
> {
  /**
   * Whether it may take the place of a protocol of the same name that was registered before, such as
   * a built-in one. Default: no, and the name is a `plugin_conflict`.
   */
  readonly replaces?: boolean
}
