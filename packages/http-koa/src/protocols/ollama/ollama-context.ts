import { CllmError, type EngineClient, type EngineDirectory, type ModelPresets } from '@cllm/core'
import type { ModelStore } from '../../routes/define-protocol.js'
import type { UnknownFields } from '../../fields/fields.js'
import type { ProtocolDefaults } from '../../request/build-request.js'
import { orUnsupported } from '../../request/refusals.js'
import type { Call } from '../../routes/route.js'
import { mayChangeServer } from '../../security/authenticate.js'
import { z } from 'zod'
import { errorMessage } from '../../errors/error-body.js'

/** What the handlers of Ollama's API share. */
export interface OllamaContext {
  readonly version: string
  /** The values of fields that requests leave out: the same on both routes. */
  readonly defaults: ProtocolDefaults
  readonly unknownOptions: UnknownFields
  /** When the server started, in milliseconds since the epoch. */
  readonly started: number
  readonly store: ModelStore | undefined
}

/** A name without Ollama's `:latest`. */
export const untagged = (name: string): string => name.replace(/:latest$/, '')

/** The presets of the server. Throws `unsupported` where it keeps none. */
export const presetsOf = ({ engines }: Call): ModelPresets =>
  orUnsupported(engines.presets, 'This server keeps no presets of its models')

/**
 * The engine of a model, or of a preset, whose name may end with Ollama's `:latest`.
 *
 * @param keepAliveMs - counts where the request may change the server, since it is for all requests
 */
export function openOllamaModel(call: Call, name: string, keepAliveMs?: number): EngineClient {
  // an unknown one is refused in Ollama's words
  const { engines } = call
  nameOfOllamaModel(engines, name)
  const known = engines.list().includes(name) ? name : untagged(name)
  const isKept = keepAliveMs !== undefined && mayChangeServer()
  return call.open(known, isKept ? { keepAliveMs } : {}).client
}

/**
 * The own name of a model.
 *
 * @throws `model_not_found` in Ollama's words, `engine_unavailable` where a cluster has no models yet
 */
export function nameOfOllamaModel(directory: EngineDirectory, name: string): string {
  const names = directory.list()
  if (names.includes(name)) return name
  try {
    return directory.nameOf(untagged(name))
  } catch (cause) {
    if (!(cause instanceof CllmError) || cause.code !== 'model_not_found') throw cause
    throw new CllmError(
      'model_not_found',
      `model '${name.slice(0, 100)}' not found: expected one of ${names.join(', ')}`,
      { details: { field: 'model' }, cause },
    )
  }
}

/** As Ollama lists it: always with a tag. */
export const taggedName = (id: string): string => (id.includes(':') ? id : `${id}:latest`)

/** A time as Ollama writes it. */
export const timeText = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** What every chunk of an answer begins with. */
export const chunkHead = ({ clock }: Call, model: string) => ({
  model,
  created_at: timeText(clock.now()),
})

/** Ollama's documented defaults; penalties are off. */
export const ollamaDefaults = Object.freeze({
  maxTokens: Infinity,
  sampling: Object.freeze({ temperature: 0.8, topK: 40, topP: 0.9 }),
})

/** The schema of Ollama's errors. */
export const ollamaErrorSchema = z.object({ error: z.string() })

/** A failure in Ollama's form. */
export function ollamaErrorBody(error: CllmError): z.output<typeof ollamaErrorSchema> {
  return {
    error:
      error.code === 'queue_full' || error.code === 'wait_too_long'
        ? 'server busy, please try again.  maximum pending requests exceeded'
        : errorMessage(error),
  }
}
