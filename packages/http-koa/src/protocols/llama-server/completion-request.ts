import type { EngineClient, GenerateRequest, CllmError } from '@cllm/core'
import { z } from 'zod'
import {
  anyStop,
  boolean,
  integer,
  largest,
  list,
  object,
  seed,
  text,
} from '../../fields/fields.js'
import {
  commonFields,
  llamaFields,
  samplersField,
  slotField,
} from '../../fields/generation-fields.js'
import { areSeveral, mixedPrompts, readPrompts } from '../../fields/mixed-prompts.js'
import {
  type ProtocolDefaults,
  requestsFor,
  grammarConstraint,
  onlyConstraint,
  schemaConstraint,
} from '../../request/build-request.js'
import { logitBiasField } from '../../request/logit-bias.js'
import { sharedSettings } from '../openai/openai-fields.js'
import { errorMessage, statusElsewhere, tooLong } from '../../errors/error-body.js'

/** What the handlers of llama-server's API share. */
export interface LlamaServerContext {
  /** The values of fields that requests leave out. */
  readonly defaults: ProtocolDefaults
  /** Whether `GET /slots` shows them. */
  readonly showsSlots: boolean
}

/** llama-server's documented defaults; penalties are off. */
export const llamaServerDefaults = Object.freeze({
  maxTokens: Infinity,
  sampling: Object.freeze({ temperature: 0.8, topK: 40, topP: 0.95, minP: 0.05 }),
})

/** The body of `POST /completion`. */
export const completionSchema = z.object({
  prompt: mixedPrompts(128),
  model: z.string('a name').optional(),
  n_predict: integer(-1, largest).optional(),
  max_tokens: integer(-1, largest).optional(),
  max_completion_tokens: integer(-1, largest).optional(),
  ...llamaFields,
  seed: seed.optional(),
  stop: anyStop.optional(),
  logit_bias: logitBiasField.optional(),
  cache_prompt: boolean.optional(),
  stream: boolean.optional(),
  return_tokens: boolean.optional(),
  n_probs: integer(0, 20).optional(),
  logprobs: z.union([boolean, integer(0, 20)], 'true, false or an integer from 0 to 20').optional(),
  n_cmpl: integer(1, 128).optional(),
  n: integer(1, 128).optional(),
  n_discard: integer(-1, largest).optional(),
  n_indent: integer(0, largest).optional(),
  n_cache_reuse: integer(0, largest).optional(),
  response_fields: list(text, 'an array of strings').optional(),
  return_progress: boolean.optional(),
  samplers: samplersField.optional(),
  post_sampling_probs: boolean.optional(),
  grammar: text.optional(),
  json_schema: object.optional(),
  t_max_predict_ms: integer(-1, largest).optional(),
  id_slot: slotField,
  timings_per_token: boolean.optional(),
  ...commonFields,
})

/** A checked body. */
export type CompletionFields = z.output<typeof completionSchema>

/** The requests of a body, `n_cmpl` for each prompt. */
export async function toCompletionRequests(
  fields: CompletionFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest[]> {
  const { logprobs: likely = 0, n_probs: logprobs = Number(likely) } = fields
  const { grammar, json_schema: schema } = fields
  const constraint = await onlyConstraint(client, [
    grammar === undefined ? undefined : grammarConstraint(grammar),
    schema && schemaConstraint('json_schema', schema),
  ])
  const most = mostTokens(fields)
  const settings = {
    ...(await sharedSettings(fields, client)),
    maxTokens: most === -1 ? Infinity : most === 0 ? 1 : most,
    constraint,
    [fields.post_sampling_probs === true ? 'drawLogprobs' : 'logprobs']:
      logprobs > 0 ? logprobs : undefined,
  }
  const prompts = await readPrompts(client, fields.prompt)
  return await requestsFor(client, prompts, settings, defaults, fields.n_cmpl ?? fields.n ?? 1)
}

/** The most tokens of an answer; with 0 only the prompt is computed. */
export const mostTokens = (fields: Omit<CompletionFields, 'prompt'>): number | undefined =>
  fields.n_predict ?? fields.max_completion_tokens ?? fields.max_tokens

/** Whether the answer is a list, with one element for each request. */
export const isListed = ({ prompt, n_cmpl: count, n = count }: CompletionFields): boolean =>
  areSeveral(prompt) || (n ?? 1) > 1

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  501: 'not_supported_error',
  503: 'unavailable_error',
}

/** The schema of llama-server's errors. */
export const llamaServerErrorSchema = z.object({
  error: z.object({
    code: z.int(),
    message: z.string(),
    type: z.string(),
    n_prompt_tokens: z.int().optional(),
    n_ctx: z.int().optional(),
  }),
})

/** A failure in llama-server's form. */
export function llamaServerErrorBody(error: CllmError): z.output<typeof llamaServerErrorSchema> {
  const status = statusElsewhere(error)
  return {
    error: {
      code: status,
      message: errorMessage(error),
      type: types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      ...tooLong(error),
    },
  }
}
