import type { DefaultOverrides } from '../../request/protocol-defaults.js'
import type { Call } from '../../routes/call.js'

/** What the handlers of OpenAI's API share. */
export interface OpenAiContext {
  readonly overrides: DefaultOverrides
  /** Seconds since the epoch, shown as the date of every model. */
  readonly started: number
  /** Whether answers show the prompt where a request does not say. */
  readonly isVerbose: () => boolean
}

/** Seconds since the epoch. */
export const secondsNow = (call: Call): number => Math.floor(call.clock.now() / 1000)

/** The fingerprint of an engine that has none, as llama-server writes it; clients only compare it. */
export const unknownFingerprint = 'b0-cllm'
