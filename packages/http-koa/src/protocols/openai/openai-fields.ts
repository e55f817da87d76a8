import type { EngineClient } from '@cllm/core'
import { z } from 'zod'
import {
  commonFields,
  commonSettings,
  slotField,
  samplersField,
  samplersLeftOut,
  usualFields,
} from '../../fields/generation-fields.js'
import { anyStop, boolean, integer, largest, list, seed } from '../../fields/fields.js'
import type { RequestSettings } from '../../request/build-request.js'
import { logitBiasField, readLogitBias } from '../../request/logit-bias.js'
import { refusing } from '../../request/refusals.js'
import { askingFields } from './structured-output.js'

/** −1 is as many as fit. */
export const anyTokensField = integer(-1, largest).transform((count) =>
  count < 0 ? Infinity : count,
)

/** At least one token. */
export const maxTokensField = integer(-1, largest)
  .refine((count) => count !== 0, { error: '-1 or an integer from 1' })
  .pipe(anyTokensField)

/** Most are vLLM's. */
const refused = refusing({
  min_tokens: [integer(0, largest), 'not kept to; ignore_eos goes on to max_tokens', 0],
  stop_token_ids: [list(integer(0, largest), 'token ids'), 'name texts in stop'],
  include_stop_str_in_output: [boolean, 'an answer ends before its stop text'],
  return_token_ids: [boolean, '/tokenize has the tokens of a text'],
  return_tokens_as_token_ids: [boolean, 'tokens are named by their texts'],
  prompt_logprobs: [integer(-1, largest), '/v1/completions has them with echo and logprobs'],
  truncate_prompt_tokens: [integer(-1, largest), 'send the part of the prompt that is to be read'],
  bad_words: [z.unknown(), 'logit_bias makes tokens unlikely'],
  allowed_token_ids: [z.unknown(), 'a grammar, or guided_regex, keeps an answer to a form'],
  use_beam_search: [boolean, 'answers are drawn; best_of has the likeliest of several'],
  prompt_embeds: [z.unknown(), 'prompts are texts or token ids'],
  chat_template: [z.unknown(), 'set by --chat-template; chat_template_kwargs are its variables'],
  documents: [z.unknown(), 'put them into a message'],
  web_search_options: [z.unknown(), 'nothing is searched; offer a tool that does it'],
  mcp_servers: [z.unknown(), 'call them yourself, and offer what they have as tools'],
})

/** The fields that chat and text completions share: OpenAI's, then those of other local servers. */
export const sharedFields = {
  model: z.string('a name').optional(),
  ...usualFields,
  // as llama-server says it
  repeat_penalty: usualFields.repetition_penalty,
  logit_bias: logitBiasField.optional(),
  seed: seed.optional(),
  // as Mistral's clients say it
  random_seed: seed.optional(),
  stop: anyStop.optional(),
  n: integer(1, 128).optional(),
  stream: boolean.optional(),
  stream_options: z.object({ include_usage: boolean.nullish() }, 'an object').optional(),
  user: z.string('a string').optional(),
  max_tokens: maxTokensField.optional(),
  n_predict: maxTokensField.optional(),
  cache_prompt: boolean.optional(),
  ...commonFields,
  samplers: samplersField.optional(),
  id_slot: slotField,
  timings_per_token: boolean.optional(),
  return_progress: boolean.optional(),
  verbose: boolean.optional(),
  ...askingFields,
  ...refused.fields,
}

const sharedSchema = z.object(sharedFields)

/**
 * The settings from the shared fields, of which llama-server's routes have some.
 *
 * @throws `invalid_request`; `unsupported` for samplers in another order and what is refused
 */
export async function sharedSettings(
  fields: Partial<z.output<typeof sharedSchema>>,
  client: EngineClient,
): Promise<RequestSettings> {
  const { stop, logit_bias: bias, samplers } = fields
  refused.check(fields)
  return {
    ...commonSettings(fields),
    seed: fields.seed ?? fields.random_seed,
    ...(samplers !== undefined && samplersLeftOut(samplers)),
    maxTokens: fields.max_tokens ?? fields.n_predict,
    logitBias: bias && (await readLogitBias(client, bias)),
    stop: typeof stop === 'string' ? (stop === '' ? [] : [stop]) : stop?.filter(Boolean),
    cache: fields.cache_prompt,
    slot: fields.id_slot,
    progress: fields.stream === true && fields.return_progress === true ? true : undefined,
  }
}
