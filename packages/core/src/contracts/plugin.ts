import type { Backend } from './backend.js'
import type { SchedulerPolicy } from './scheduler-policy.js'
import type { Protocol } from './transport.js'

/** Checks options and fills in defaults; zod's schemas fit. Throws on what is wrong. */
export interface OptionsSchema<Options> {
  /** The options with their defaults. Throws on what is wrong. */
  parse(value: unknown): Options
}

/** Makes a policy from its options, which it checks itself. */
export type PolicyFactory = (options: Readonly<Record<string, unknown>>) => SchedulerPolicy

/** Makes a backend for a model. */
export type BackendFactory = (
  options: Readonly<Record<string, unknown>>,
) => Backend | Promise<Backend>

/** Makes a protocol. */
export type ProtocolFactory = (options: Readonly<Record<string, unknown>>) => Protocol

/** What a plugin can add. A name can be taken once; a second one throws `plugin_conflict`. */
export interface PluginHost {
  /** Adds a scheduling policy, named in `--policy`. */
  registerPolicy(name: string, create: PolicyFactory): void
  /** Adds a kind of backend. */
  registerBackend(name: string, create: BackendFactory): void
  /** Adds a protocol to every HTTP transport. */
  registerProtocol(name: string, create: ProtocolFactory): void
}

/** A plugin: made with {@link definePlugin}, the default export of its module. */
export interface Plugin<Options = unknown> {
  readonly name: string
  /** The version of this interface. */
  readonly apiVersion: 1
  readonly options?: OptionsSchema<Options>
  /** Adds what the plugin has. Called once, with checked options. */
  register(host: PluginHost, options: Options): void | Promise<void>
}
