import type { EngineDirectory } from '@cllm/core'
import type { UnknownFields } from '../../fields/unknown-fields.js'
import type { DefaultOverrides } from '../../request/protocol-defaults.js'
import type { KoaContext } from '../../routes/koa-context.js'

/** What the handlers of OpenAI's API share. */
export interface OpenAiContext {
  readonly directory: EngineDirectory
  readonly overrides: DefaultOverrides
  readonly unknownFields: UnknownFields
  /** Seconds since the epoch, shown as the date of every model. */
  readonly started: number
  /** Whether answers show the prompt where a request does not say. */
  readonly isVerbose: () => boolean
}

/** Seconds since the epoch. */
export const secondsNow = (ctx: KoaContext): number =>
  Math.floor(ctx.state.transport.clock.now() / 1000)

/** The fingerprint of an engine that has none, as llama-server writes it; clients only compare it. */
export const unknownFingerprint = 'b0-cllm'
