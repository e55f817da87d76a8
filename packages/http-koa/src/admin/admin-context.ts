import type { EngineDirectory } from '@cllm/core'
import type { LogLevelControl } from './log-level.js'

/** What the handlers of the admin protocol share. */
export interface AdminContext {
  readonly directory: EngineDirectory
  readonly log: LogLevelControl | undefined
}
