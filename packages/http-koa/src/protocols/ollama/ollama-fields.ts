import type { Logger, PromptMedia } from '@cllm/core'
import { z } from 'zod'
import { filePart } from '../../chat/message-content.js'
import type { JsonObject, UnknownFields } from '../../fields/fields.js'
import {
  anyStop,
  boolean,
  integer,
  keepAliveField,
  largest,
  object,
  seed,
} from '../../fields/fields.js'
import { llamaFields, samplingSettings } from '../../fields/generation-fields.js'
import type { FieldConstraint, RequestSettings } from '../../request/build-request.js'
import { schemaConstraint } from '../../request/build-request.js'
import type { Call } from '../../routes/route.js'

const any = z.unknown().optional()

/** The same fields, which may be null. */
const nullable = <Shape extends Readonly<Record<string, z.ZodType>>>(shape: Shape) =>
  Object.fromEntries(Object.entries(shape).map(([key, field]) => [key, field.nullable()])) as {
    readonly [Key in keyof Shape]: z.ZodNullable<Shape[Key]>
  }

/** The known members of `options`; the last of them mean nothing here and are taken silently. */
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

/** The options of a request, those of other versions of Ollama included. */
export const optionsSchema = z.looseObject(knownOptions.shape, 'an object')

/** The fields that `/api/generate` and `/api/chat` share. */
export const sharedFields = {
  model: z.string('the name of a model').min(1, 'the name of a model'),
  stream: boolean.optional(),
  options: optionsSchema.optional(),
  format: z
    .custom<string | JsonObject>(
      (value) => value === '' || value === 'json' || (typeof value === 'object' && value !== null),
      'json or a JSON schema',
    )
    .meta({ anyOf: [{ enum: ['', 'json'] }, { type: 'object' }] })
    .optional(),
  think: z
    .custom<boolean | string>(
      (value) => typeof value === 'boolean' || ['high', 'medium', 'low'].includes(value as string),
      'true, false, high, medium or low',
    )
    .meta({ anyOf: [{ type: 'boolean' }, { enum: ['high', 'medium', 'low'] }] })
    .optional(),
  keep_alive: keepAliveField,
  logprobs: boolean.optional(),
  top_logprobs: integer(0, 20).optional(),
  /** Whether the oldest messages go when a conversation does not fit; default true. */
  truncate: boolean.optional(),
  shift: boolean.optional(),
}

const sharedSchema = z.object(sharedFields)

/** The checked fields that both routes share. */
export type SharedFields = z.output<typeof sharedSchema>

/** What `format` asks for. */
export function ollamaConstraint({
  format,
}: Pick<SharedFields, 'format'>): FieldConstraint | undefined {
  const field = 'format'
  if (format === undefined || format === '') return undefined
  if (format === 'json') return { field, constraint: { type: 'json' } }
  return schemaConstraint(field, format)
}

/** What the options ask of the engine. */
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
    stop: typeof said.stop === 'string' ? [said.stop].filter(Boolean) : said.stop?.filter(Boolean),
    ...samplingSettings(said),
    ...(shift === true && { contextShift: { keep: said.num_keep ?? 0 } }),
  }
}

/** Tells the log, and the client in `X-Cllm-Warning`, of a context that is larger than a slot. */
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

/** A tool as Ollama's clients send it. */
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

/** Images before a message's text; undefined where there are none. */
export function imagesOf(
  images: readonly unknown[] | null | undefined,
  field: string,
): readonly PromptMedia[] | undefined {
  if (images === undefined || images === null || images.length === 0) return undefined
  return images.map((image, nth) => ({ ...filePart('image', image, `${field}.${nth}`), at: 0 }))
}
