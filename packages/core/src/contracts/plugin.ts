import type { InjectionToken } from 'tsyringe'
import type {
  BackendDefinition,
  BatchingDefinition,
  ModelSchedulerDefinition,
  OptionsSchema,
  OrderDefinition,
  PolicyDefinition,
  ProposerDefinition,
  ProtocolDefinition,
  RouterDefinition,
  SamplerDefinition,
} from './definition.js'

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
