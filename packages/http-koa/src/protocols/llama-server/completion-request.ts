import type { EngineClient, GenerateRequest } from '@cllm/core'
import { z } from 'zod'
import { boolean, integer, largest, list, object, seed, text } from '../../fields/fields.js'
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

/** Likeliest tokens that the engine lists. */
const mostLogprobs = 20

const fewTexts = 'an array of up to 32 strings'
const stops = list(text, fewTexts, { most: [32, fewTexts] })

/** The body of `POST /completion`. */
export const completionSchema = z.object({
  prompt: mixedPrompts(128),
  model: z.string('a name').optional(),
  n_predict: integer(-1, largest).optional(),
  max_tokens: integer(-1, largest).optional(),
  ...llamaFields,
  seed: seed.optional(),
  stop: z.union([text, stops], 'a string or up to 32 strings').optional(),
  logit_bias: logitBiasField.optional(),
  cache_prompt: boolean.optional(),
  stream: boolean.optional(),
  return_tokens: boolean.optional(),
  n_probs: integer(0, mostLogprobs).optional(),
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
  const { n_probs: logprobs = 0 } = fields
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
  return requestsFor(client, prompts, settings, defaults, fields.n_cmpl ?? fields.n ?? 1)
}

/** Most tokens of an answer; with 0 the prompt alone is computed. */
export const mostTokens = ({ n_predict, max_tokens }: CompletionFields): number | undefined =>
  n_predict ?? max_tokens

/** Whether the answer is a list, with one element for each request. */
export const isListed = ({ prompt, n_cmpl: count, n = count }: CompletionFields): boolean =>
  areSeveral(prompt) || (n ?? 1) > 1
