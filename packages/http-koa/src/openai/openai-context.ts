import type { EngineClient, EngineDirectory } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import type { UnknownFields } from '../native/unknown-fields.js'
import type { DefaultOverrides } from '../request/protocol-defaults.js'

/** What the handlers of OpenAI's API share. */
export interface OpenAiContext {
  readonly directory: EngineDirectory
  readonly overrides: DefaultOverrides
  readonly unknownFields: UnknownFields
  /** Seconds since the epoch: models have no other date of birth here. */
  readonly started: number
}

/** A request's model: its name in the answer, and its engine. */
export interface OpenedModel {
  readonly model: string
  readonly client: EngineClient
}

/** The model of a request, or the default one. Throws `model_not_found`. */
export function openModel(directory: EngineDirectory, model: string | undefined): OpenedModel {
  const client = directory.open(model)
  return { model: model ?? directory.list()[0] ?? '', client }
}

/** Seconds since the epoch. */
export const secondsNow = (ctx: KoaContext): number =>
  Math.floor(ctx.state.transport.clock.now() / 1000)

/** OpenAI's name for what computed an answer; clients only compare it. */
export const fingerprint = 'fp_cllm'
