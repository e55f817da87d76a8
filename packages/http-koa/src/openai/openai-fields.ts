import { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'
import { commonFields, commonSettings } from '../fields/common-fields.js'
import {
  boolean,
  integer,
  largest,
  logitBias,
  number,
  object,
  seed,
  stop,
} from '../fields/fields.js'

/** The fields that chat and text completions share: OpenAI's, then those of other local servers. */
export const sharedFields = {
  model: z.string('a name').optional(),
  temperature: number(0, 2).optional(),
  top_p: number(0, 1).optional(),
  presence_penalty: number(-2, 2).optional(),
  frequency_penalty: number(-2, 2).optional(),
  logit_bias: logitBias.optional(),
  seed: seed.optional(),
  stop: stop.optional(),
  n: integer(1, 128).optional(),
  stream: boolean.optional(),
  stream_options: z.object({ include_usage: boolean.optional() }, 'an object').optional(),
  user: z.string('a string').optional(),
  max_tokens: integer(1, largest).optional(),
  top_k: integer(-1, largest).optional(),
  min_p: number(0, 1).optional(),
  repeat_penalty: number(0.01, 10).optional(),
  repetition_penalty: number(0.01, 10).optional(),
  cache_prompt: boolean.optional(),
  ...commonFields,
  grammar: z.string('a string').optional(),
  response_format: object.optional(),
}

const sharedSchema = z.object(sharedFields)

/** The settings from the shared fields. */
export function sharedSettings(fields: z.output<typeof sharedSchema>): RequestSettings {
  return {
    ...commonSettings(fields),
    maxTokens: fields.max_tokens,
    repetitionPenalty: fields.repeat_penalty ?? fields.repetition_penalty,
    logitBias: fields.logit_bias,
    stop: fields.stop,
    cache: fields.cache_prompt,
  }
}
