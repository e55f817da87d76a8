import type { Recording } from '@cllm/core'

/** Limits of the flight recorder. */
export interface RecorderOptions {
  /** Period to keep, in milliseconds; default 600,000 (10 minutes), 0 disables the recorder. */
  readonly windowMs: number
  /** Approximate memory limit in bytes; beyond it, the oldest entries are dropped. Default 16 MiB. */
  readonly maxBytes: number
  /** Called with the recording when an engine crashes; default: not set. */
  readonly onCrash: (recording: Recording) => void
}

/** The defaults of {@link RecorderOptions}. */
export const defaultRecorderOptions: RecorderOptions = Object.freeze({
  windowMs: 600_000,
  maxBytes: 16 * 1024 * 1024,
  onCrash: () => {},
})
