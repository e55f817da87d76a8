import type { AdapterSource, EngineOptions, PartChoice } from '@cllm/core'
import type { PluginEntry, StateFolderOptions } from '@cllm/host'
import type { LogSettings } from '../process/logger.js'

// Without an import of code: an engine's process has nothing of the configuration or of HTTP.

/** The built-in backend's name. */
export const llamaCpp = 'llamacpp'

/** The settings of an engine's process; sent to it as JSON. */
export interface EngineSettings {
  /** The backend's name in the registry, such as `llamacpp`. */
  readonly backendName: string
  /** Its options, the model's path among them. */
  readonly backend: Readonly<Record<string, unknown>>
  /** The options of the draft model's backend, which is of the same kind; default: there is none. */
  readonly draft?: Readonly<Record<string, unknown>>
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  readonly options: Partial<EngineOptions>
  readonly plugins: readonly PluginEntry[]
  /** Folder from which plugin names are resolved. */
  readonly pluginsFolder: string
  /** Plugins' replacements for built-in parts. */
  readonly use: PartChoice
  readonly log: LogSettings
  /** Adapters to load before the first request; default: none. */
  readonly adapters?: readonly AdapterSource[]
  /** Whether the engine starts without those that cannot be loaded; default false. */
  readonly skipsAdapters?: boolean
  /** What keeps what slots held; default: nothing does. */
  readonly cache?: CacheSettings
  /** Bytes of RAM that other engines hold, which this one must not use; default 0. */
  readonly heldBytes?: number
  /** Engines that may compute at once on this machine's cores, this one among them; default 1. */
  readonly engines?: number
}

/** The tiers behind the slots. */
export interface CacheSettings {
  /** MiB of RAM. */
  readonly ram: number | 'auto'
  /** Files that survive a restart. */
  readonly disk?: StateFolderOptions
  /** Folder in memory where states wait for their model while another one has its place; without `disk`. */
  readonly unloaded?: string
  /** Folder of the files that clients name. */
  readonly slotFolder?: string
  /** What files are encrypted with; default: they are not. */
  readonly key?: string
}

/** Changes the log level of a running engine's process. */
export interface LogLevelMessage {
  readonly type: 'log-level'
  readonly level: string
}

/** The first message to an engine's process. */
export interface StartMessage {
  readonly type: 'start'
  readonly settings: EngineSettings
}
