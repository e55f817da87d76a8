import type { GenerateRequest } from '@cllm/core'
import { z } from 'zod'
import { buildRequest } from '../../request/build-request.js'
import { commonFields, commonSettings } from '../../fields/common-fields.js'
import {
  boolean,
  integer,
  largest,
  logitBias,
  name,
  number,
  object,
  stop,
  text,
} from '../../fields/fields.js'
import { list } from '../../fields/list.js'
import { samplerFields, samplerSettings } from '../../fields/sampler-fields.js'
import type { ProtocolDefaults } from '../../request/protocol-defaults.js'

const fewSamplers = 'an array of up to 8 objects with a name'
/** The engine checks the names and the options. */
const samplerChoice = z
  .object({ name, options: object.optional() }, fewSamplers)
  .transform(({ name, options }) => ({ name, ...(options && { options }) }))

/** The body of `/generate` and `/generate_stream`. Messages say what is expected. */
export const generateSchema = z.object({
  model: name.optional(),
  prompt: text.min(1, 'a non-empty string'),
  max_tokens: integer(1, largest).optional(),
  temperature: number(0, 2).optional(),
  top_p: number(0, 1).optional(),
  top_k: integer(0, largest).optional(),
  min_p: number(0, 1).optional(),
  seed: integer(0, 2 ** 32 - 1).optional(),
  repetition_penalty: number(0.01, 10).optional(),
  presence_penalty: number(-2, 2).optional(),
  frequency_penalty: number(-2, 2).optional(),
  logit_bias: logitBias.optional(),
  stop: stop.optional(),
  stream: boolean.optional(),
  ...samplerFields,
  samplers: list(samplerChoice, fewSamplers, { most: [8, fewSamplers] }).optional(),
  ...commonFields,
  cache: boolean.optional(),
  timings: boolean.optional(),
})

/** A checked request. */
export interface NativeRequest {
  readonly stream: boolean
  /** Whether the answer includes timings. */
  readonly timings: boolean
  readonly maxTokens: number
  readonly request: GenerateRequest
}

/** A request with a model's defaults where its fields say nothing. */
export function toNativeRequest(
  fields: z.output<typeof generateSchema>,
  defaults: ProtocolDefaults,
): NativeRequest {
  const { stop, cache } = fields
  const request = buildRequest(
    { text: fields.prompt },
    {
      ...commonSettings(fields),
      ...samplerSettings(fields),
      samplers: fields.samplers,
      stop,
      cache,
      maxTokens: fields.max_tokens,
      repetitionPenalty: fields.repetition_penalty,
      logitBias: fields.logit_bias,
    },
    defaults,
  )
  return {
    stream: fields.stream ?? false,
    timings: fields.timings ?? false,
    maxTokens: fields.max_tokens ?? defaults.maxTokens,
    request,
  }
}
