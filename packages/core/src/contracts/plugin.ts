import type { RouterPolicy, Batching, Order, ModelScheduler } from './scheduling/decisions.js'
import type { SchedulerPolicy } from './scheduling/scheduler-policy.js'
import type { Protocol } from './transport.js'
import type { Backend } from './model/backend.js'
import type { Proposer, LogitProcessor, SamplerContext } from './model/drawing.js'
import type { Services } from './services.js'
import type { InjectionToken } from 'tsyringe'

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
export type BackendContext = Pick<Services, 'clock' | 'logger'>

/**
 * A kind of backend, which users choose by its name in `--backend`. It loads the model: `cllm serve` passes
 * `modelPath`, `modelId`, `slots`, `batchSize` and, where they are set, `contextSize` and `threads`, together
 * with `engine.backend_options`. Without a schema of its options, they are passed on unchecked.
 */
export interface BackendDefinition<Options = unknown> extends Definition<
  Backend | Promise<Backend>,
  Options,
  [context: BackendContext]
> {
  /** @internal Whether its calls are made without a guard that names them when they fail. Default: false. */
  readonly isTrusted?: boolean
}

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

/** Names a replaceable part of an engine or server, such as `ADMISSION`. */
export type PartToken<T> = InjectionToken<T>

/** What a part is made with. */
export interface PartContext<T> {
  /** Another part of the same engine, such as `get(CLOCK)`. */
  readonly get: <U>(token: PartToken<U>) => U
  /** Makes the part that this one replaces, to add to it: `original().check(…)`. */
  readonly original: () => T
}

/** Makes a part; called once for each engine. */
export type PartFactory<T> = (context: PartContext<T>) => T

/** What a plugin can add. A name can be taken once; a second one throws `plugin_conflict`. */
export interface PluginHost {
  /** Adds a whole scheduling policy, named in `--policy`. */
  registerPolicy(policy: PolicyDefinition): void
  /** Adds an order: with each batching it is a policy, named `batching+order`. */
  registerOrder(order: OrderDefinition): void
  /** Adds a batching: with each order it is a policy, named `batching+order`. */
  registerBatching(batching: BatchingDefinition): void
  /** Adds a kind of backend, named in `--backend`. */
  registerBackend(backend: BackendDefinition): void
  /** Adds a sampler, which requests name in `samplers`. */
  registerSampler(sampler: SamplerDefinition): void
  /** Adds a proposer of draft tokens, named in `--speculative`. */
  registerProposer(proposer: ProposerDefinition): void
  /** Adds a protocol, named in `--protocols`, or puts it in place of another one (`replaces`). */
  registerProtocol(protocol: ProtocolDefinition): void
  /** Adds a router, named in `--router`. */
  registerRouter(router: RouterDefinition): void
  /** Adds a model scheduler, named in `--model-scheduler`. */
  registerModelScheduler(scheduler: ModelSchedulerDefinition): void
  /**
   * Provides a part of the engine or server under a name: `--use PART=NAME` puts it in place of the
   * built-in one. Two tokens need no `--use`: every engine observer (`ENGINE_OBSERVER`) is used, and a
   * model source (`MODEL_SOURCE`) is used for model specs that begin with its name, `NAME:…`.
   * Experimental: the parts may change in 0.x.
   */
  provide<T>(token: PartToken<T>, name: string, create: PartFactory<T>): void
}

/** A plugin: made with {@link definePlugin}, the default export of its module. */
export interface Plugin<Options = unknown> {
  readonly name: string
  /** The version of this interface. */
  readonly apiVersion: 1
  readonly options?: OptionsSchema<Options>
  /**
   * Adds what the plugin has, with checked options. Called once in each process: in the server's, and
   * in each engine's whenever it starts.
   */
  register(host: PluginHost, options: Options): void | Promise<void>
}

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
