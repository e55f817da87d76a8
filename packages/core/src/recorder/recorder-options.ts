import type { Recording } from '../contracts/recording.js'

/** What the flight recorder keeps. */
export interface RecorderOptions {
  /** How far it goes back, in milliseconds; default 600,000 (10 minutes), 0 for no recorder. */
  readonly windowMs: number
  /** The memory that it may take, about; what is older goes earlier then. Default 16 MiB. */
  readonly maxBytes: number
  /** Told of the last minutes when an engine dies; default: nobody is. */
  readonly onCrash: (recording: Recording) => void
}

/** The defaults of {@link RecorderOptions}. */
export const defaultRecorderOptions: RecorderOptions = Object.freeze({
  windowMs: 600_000,
  maxBytes: 16 * 1024 * 1024,
  onCrash: () => {},
})
