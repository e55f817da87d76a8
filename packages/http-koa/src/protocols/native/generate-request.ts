import type { GenerateRequest } from '@cllm/core'
import { z } from 'zod'
import {
  commonFields,
  commonSettings,
  defaultsFields,
  usualFields,
} from '../../fields/generation-fields.js'
import {
  boolean,
  integer,
  largest,
  list,
  logitBias,
  name,
  object,
  stop,
  text,
} from '../../fields/fields.js'
import { buildRequest, type ProtocolDefaults } from '../../request/build-request.js'

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
  ...usualFields,
  ...defaultsFields,
  seed: integer(0, 2 ** 32 - 1).optional(),
  logit_bias: logitBias.optional(),
  stop: stop.optional(),
  stream: boolean.optional(),
  samplers: list(samplerChoice, fewSamplers, { most: [8, fewSamplers] }).optional(),
  ...commonFields,
  cache: boolean.optional(),
  timings: boolean.optional(),
})

/** The engine's request of a body, with a model's defaults where its fields say nothing. */
export const toNativeRequest = (
  fields: z.output<typeof generateSchema>,
  defaults: ProtocolDefaults,
): GenerateRequest =>
  buildRequest(
    { text: fields.prompt },
    {
      ...commonSettings(fields),
      samplers: fields.samplers,
      stop: fields.stop,
      cache: fields.cache,
      maxTokens: fields.max_tokens,
      logitBias: fields.logit_bias,
    },
    defaults,
  )
