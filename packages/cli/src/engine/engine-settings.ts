import type { LlamaCppOptions } from '@cllm/backend-llamacpp'
import type { EngineOptions, PluginEntry } from '@cllm/core'
import type { LogSettings } from '../logger.js'

/** All that an engine's process needs to know; it travels as JSON. */
export interface EngineSettings {
  readonly backend: LlamaCppOptions
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  readonly options: Partial<EngineOptions>
  readonly plugins: readonly PluginEntry[]
  /** Folder that the plugins' names are looked up from. */
  readonly pluginsFolder: string
  readonly log: LogSettings
  /** Bytes of RAM that other engines hold, so that this one does not count on them; default 0. */
  readonly heldBytes?: number
}

/** What is logged from now on, for an engine's process that runs. */
export interface LogLevelMessage {
  readonly type: 'log-level'
  readonly level: string
}

/** The first message to an engine's process. */
export interface StartMessage {
  readonly type: 'start'
  readonly settings: EngineSettings
}
