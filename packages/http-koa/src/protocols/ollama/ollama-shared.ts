import { CllmError } from '@cllm/core'
import type { EngineClient, EngineDirectory, ModelPresets, Logger } from '@cllm/core'
import type { ModelStore } from '../../routes/define-protocol.js'
import {
  anyStop,
  boolean,
  integer,
  largest,
  object,
  seed,
  keepAliveField,
} from '../../fields/fields.js'
import type { UnknownFields } from '../../fields/fields.js'
import {
  type ProtocolDefaults,
  type RequestSettings,
  type FieldConstraint,
  schemaConstraint,
} from '../../request/build-request.js'
import { orUnsupported } from '../../request/refusals.js'
import type { Call } from '../../routes/route.js'
import { mayChangeServer } from '../../security/authenticate.js'
import { z } from 'zod'
import { errorMessage } from '../../errors/error-body.js'
import { filePart } from '../../chat/message-content.js'
import { llamaFields, samplingSettings } from '../../fields/generation-fields.js'

/** The context of the handlers of Ollama's API. */
export interface OllamaContext {
  readonly version: string
  /** The default values of request fields, which are the same on both routes. */
  readonly defaults: ProtocolDefaults
  readonly unknownOptions: UnknownFields
  /** When the server started, in milliseconds since the epoch. */
  readonly started: number
  readonly store: ModelStore | undefined
}

/** A name without Ollama's `:latest`. */
export const untagged = (name: string): string => name.replace(/:latest$/, '')

/** The presets of the server. Throws `unsupported` if it keeps none. */
export const presetsOf = ({ engines }: Call): ModelPresets =>
  orUnsupported(engines.presets, 'This server keeps no presets of its models')

/**
 * The engine of a model, or of a preset, whose name may end with Ollama's `:latest`.
 *
 * @param keepAliveMs - ignored unless the request may change the server, since it affects all requests
 */
export function openOllamaModel(call: Call, name: string, keepAliveMs?: number): EngineClient {
  // throws with Ollama's message for an unknown name
  const { engines } = call
  nameOfOllamaModel(engines, name)
  const known = engines.list().includes(name) ? name : untagged(name)
  const isKept = keepAliveMs !== undefined && mayChangeServer()
  return call.open(known, isKept ? { keepAliveMs } : {}).client
}

/**
 * The server's name of a model that a client names in Ollama's way.
 *
 * @throws `model_not_found` with Ollama's message, `engine_unavailable` if a cluster has no models yet
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

/** A model's name as Ollama lists it, always with a tag. */
export const taggedName = (id: string): string => (id.includes(':') ? id : `${id}:latest`)

/** A time as Ollama writes it. */
export const timeText = (milliseconds: number): string => new Date(milliseconds).toISOString()

/** The first members of every chunk of an answer. */
export const chunkHead = ({ clock }: Call, model: string) => ({
  model,
  created_at: timeText(clock.wall()),
})

/** Ollama's documented defaults; penalties are off. */
export const ollamaDefaults = Object.freeze({
  maxTokens: Infinity,
  sampling: Object.freeze({ temperature: 0.8, topK: 40, topP: 0.9 }),
})

/** The schema of Ollama's errors. */
export const ollamaErrorSchema = z.object({ error: z.string() })

/** An error in Ollama's format. */
export function ollamaErrorBody(error: CllmError): z.output<typeof ollamaErrorSchema> {
  return {
    error:
      error.code === 'queue_full' || error.code === 'wait_too_long'
        ? 'server busy, please try again.  maximum pending requests exceeded'
        : errorMessage(error),
  }
}

const any = z.unknown().optional()

/** Lets fields be null. */
const nullable = <Shape extends Readonly<Record<string, z.ZodType>>>(shape: Shape) =>
  Object.fromEntries(Object.entries(shape).map(([key, field]) => [key, field.nullable()])) as {
    readonly [Key in keyof Shape]: z.ZodNullable<Shape[Key]>
  }

/** The known members of `options`; those of type `any` have no effect here and are ignored without a warning. */
const knownOptions = z.object(
  {
    num_predict: integer(-2, largest).nullish(),
    num_ctx: integer(0, largest).nullish(),
    ...nullable(llamaFields),
    seed: seed.nullish(),
    stop: anyStop.nullish(),
    num_keep: integer(-1, largest).nullish(),
    num_batch: any,
    num_gpu: any,
    main_gpu: any,
    num_thread: any,
    use_mmap: any,
    use_mlock: any,
    numa: any,
  },
  'an object',
)

/** The options of a request, including unknown ones of other versions of Ollama. */
export const optionsSchema = z.looseObject(knownOptions.shape, 'an object')

/** The fields that `/api/generate` and `/api/chat` share. */
export const sharedFields = {
  model: z.string('the name of a model').min(1, 'the name of a model'),
  stream: boolean.optional(),
  options: optionsSchema.optional(),
  format: z.union([z.enum(['', 'json']), object], 'json or a JSON schema').optional(),
  think: z
    .union([boolean, z.enum(['high', 'medium', 'low'])], 'true, false, high, medium or low')
    .optional(),
  keep_alive: keepAliveField,
  logprobs: boolean.optional(),
  top_logprobs: integer(0, 20).optional(),
  /** Whether the oldest messages are dropped if a conversation does not fit; default true. */
  truncate: boolean.optional(),
  shift: boolean.optional(),
}

/** The checked fields that both routes share. */
export type SharedFields = z.output<z.ZodObject<typeof sharedFields>>

/** The constraint of the answer that `format` asks for. */
export function ollamaConstraint({
  format,
}: Pick<SharedFields, 'format'>): FieldConstraint | undefined {
  const field = 'format'
  if (format === undefined || format === '') return undefined
  if (format === 'json') return { field, constraint: { type: 'json' } }
  return schemaConstraint(field, format)
}

/** The request's settings that the options ask for. */
export function toSettings(
  { options = {}, shift }: Pick<SharedFields, 'options' | 'shift'>,
  unknownOptions: UnknownFields,
  logger: Logger,
): RequestSettings {
  const known: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options)) {
    if (!Object.hasOwn(knownOptions.shape, name)) unknownOptions.warn(name, logger)
    else if (value !== null) known[name] = value
  }
  const said = known as { [Key in keyof typeof options]?: Exclude<(typeof options)[Key], null> }
  const most = said.num_predict
  return {
    maxTokens: most === undefined ? undefined : most > 0 ? most : Infinity,
    stop: said.stop,
    ...samplingSettings(said),
    ...(shift === true && { contextShift: { keep: said.num_keep ?? 0 } }),
  }
}

/** Warns in the log, and the client in `X-Cllm-Warning`, if `num_ctx` is larger than a slot. */
export function warnOfOptions(
  call: Call,
  { options = {} }: Pick<SharedFields, 'options'>,
  contextSize: number,
): void {
  const { num_ctx } = options
  if ((num_ctx ?? 0) <= contextSize) return
  const what = `num_ctx ${num_ctx} is more than a slot`
  call.logger.info({ num_ctx, contextSize }, `${what} holds: it is clamped to ${contextSize}`)
  const used = `${contextSize} tokens are used; --ctx-size sets it`
  call.set({ 'X-Cllm-Warning': `${what} of this server holds: ${used}` })
}

/** A tool in Ollama's format. */
export const toolSchema = z.object(
  {
    type: z.string('a string').optional(),
    function: z.object(
      {
        name: z.string('a name').min(1, 'a name'),
        description: z.string('a string').nullish(),
        parameters: object.nullish(),
      },
      'an object with a name',
    ),
  },
  'a tool',
)

/** Images, which go before a message's text; undefined if there are none. */
export function imagesOf(images: readonly unknown[] | null | undefined, field: string) {
  if (images === undefined || images === null || images.length === 0) return undefined
  return images.map((image, nth) => ({ ...filePart('image', image, `${field}.${nth}`), at: 0 }))
}
