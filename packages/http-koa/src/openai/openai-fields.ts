import { z } from 'zod'
import {
  boolean,
  integer,
  largest,
  logitBias,
  milliseconds,
  name,
  number,
  object,
  seed,
  stop,
} from '../request/fields.js'
import type { RequestSettings } from '../request/build-request.js'

/** The fields that chat and text completions share: OpenAI's, then those that local servers know. */
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
  user: z.string('a text').optional(),
  max_tokens: integer(1, largest).optional(),
  top_k: integer(-1, largest).optional(),
  min_p: number(0, 1).optional(),
  repeat_penalty: number(0.01, 10).optional(),
  repetition_penalty: number(0.01, 10).optional(),
  ignore_eos: boolean.optional(),
  cache_prompt: boolean.optional(),
  priority: integer(-(2 ** 31), largest).optional(),
  deadline_ms: milliseconds.optional(),
  timeout_ms: milliseconds.optional(),
  tenant: name.optional(),
  session: name.optional(),
  grammar: z.string('a text').optional(),
  response_format: object.optional(),
}

const sharedSchema = z.object(sharedFields)

/** What the shared fields ask of the engine. */
export function sharedSettings(fields: z.output<typeof sharedSchema>): RequestSettings {
  return {
    maxTokens: fields.max_tokens,
    temperature: fields.temperature,
    topP: fields.top_p,
    topK: fields.top_k,
    minP: fields.min_p,
    seed: fields.seed,
    repetitionPenalty: fields.repeat_penalty ?? fields.repetition_penalty,
    presencePenalty: fields.presence_penalty,
    frequencyPenalty: fields.frequency_penalty,
    logitBias: fields.logit_bias,
    ignoreEos: fields.ignore_eos,
    stop: fields.stop,
    priority: fields.priority,
    deadlineMs: fields.deadline_ms,
    timeoutMs: fields.timeout_ms,
    tenant: fields.tenant,
    session: fields.session,
    cache: fields.cache_prompt,
  }
}
