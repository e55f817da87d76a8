import type { EngineDirectory } from '@cllm/core'

/** Engines that end with their server. */
export interface ClosableDirectory extends EngineDirectory {
  /** Takes no new requests and resolves when the last is done. */
  drain(): Promise<void>
  /** Ends all engines at once. */
  close(): Promise<void>
}
