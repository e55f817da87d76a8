import type { OutputConstraint, EngineClient } from '@cllm/core'
import { z } from 'zod'
import { parseNested } from '../../body/read-body.js'
import {
  isObject,
  list,
  object,
  type JsonObject,
  anyStop,
  boolean,
  integer,
  largest,
  seed,
  text,
} from '../../fields/fields.js'
import { grammarConstraint, schemaConstraint } from '../../request/build-request.js'
import type { FieldConstraint, RequestSettings } from '../../request/build-request.js'
import { expectedField, unsupported, refusing } from '../../request/refusals.js'
import {
  commonFields,
  commonSettings,
  slotField,
  samplersField,
  samplersLeftOut,
  usualFields,
} from '../../fields/generation-fields.js'
import { logitBiasField, readLogitBias } from '../../request/logit-bias.js'

const choices = list(text.min(1, 'a text'), 'an array of texts', {
  least: [1, 'at least one text'],
  most: [1000, 'at most 1000 texts'],
})
const schemaField = z
  .custom<unknown>((value) => value !== undefined, 'a JSON schema')
  .meta({ anyOf: [{ type: 'object' }, { type: 'string' }, { type: 'boolean' }] })

/**
 * The fields that can constrain the answer: OpenAI's, llama-server's and vLLM's (the older ones and
 * `structured_outputs`).
 */
const askingFields = {
  grammar: text.optional(),
  json_schema: object.optional(),
  response_format: object.optional(),
  guided_json: schemaField.optional(),
  guided_regex: text.optional(),
  guided_choice: choices.optional(),
  guided_grammar: text.optional(),
  structured_outputs: z
    .looseObject(
      {
        json: schemaField.optional(),
        regex: text.optional(),
        choice: choices.optional(),
        grammar: text.optional(),
        json_object: z.boolean('true or false').optional(),
        structural_tag: z.unknown().optional(),
      },
      'an object',
    )
    .optional(),
  structural_tag: object.optional(),
}

/** These fields of a body. */
type AskingFields = Partial<z.output<z.ZodObject<typeof askingFields>>>

/**
 * The constraints that the fields ask for: OpenAI's, llama-server's and vLLM's.
 *
 * @throws `invalid_request`, or `unsupported` for structural tags
 */
export function askedConstraints(fields: AskingFields): readonly FieldConstraint[] {
  const { response_format: format, json_schema: schema, structured_outputs: outputs } = fields
  if (outputs?.structural_tag !== undefined || fields.structural_tag !== undefined) {
    throw unsupported('structural_tag', 'use tools with strict, or a grammar')
  }
  const { guided_json: json, guided_regex: regex, guided_choice: choice } = fields
  const asked = [
    format && formatConstraint(format),
    fields.grammar === undefined ? undefined : grammarConstraint(fields.grammar),
    schema && schemaConstraint('json_schema', schema),
    ...(outputs === undefined ? [] : guidedConstraints('structured_outputs.', outputs)),
    ...guidedConstraints('guided_', { json, regex, choice, grammar: fields.guided_grammar }),
  ]
  return asked.filter((one) => one !== undefined)
}

type GuidedOutputs = NonNullable<AskingFields['structured_outputs']>

function guidedConstraints(
  at: string,
  { json, regex = '', choice, grammar = '', json_object: isJson }: Partial<GuidedOutputs>,
): (FieldConstraint | undefined)[] {
  const asks = (name: string, constraint: OutputConstraint) => ({ field: at + name, constraint })
  return [
    json === undefined ? undefined : schemaConstraint(`${at}json`, schemaIn(json, `${at}json`)),
    regex === '' ? undefined : asks('regex', { type: 'regex', pattern: regex }),
    choice &&
      asks('choice', { type: 'gbnf', grammar: `root ::= ${choice.map(literal).join(' | ')}` }),
    grammar === '' ? undefined : asks('grammar', { type: 'gbnf', grammar }),
    isJson === true ? asks('json_object', { type: 'json' }) : undefined,
  ]
}

/** A schema, which vLLM also takes as JSON text. */
const schemaIn = (given: unknown, field: string): unknown =>
  typeof given === 'string' ? parseNested(given, field, 'a JSON schema') : given

/** A text as a literal of a grammar. Control characters are escaped, too, as grammars have no NUL and no line breaks. */
const literal = (text: string): string =>
  `"${text.replaceAll(/["\\\p{Cc}]/gu, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)}"`

/**
 * The constraint of `response_format`. Clients of llama-server put the schema beside `json_object`; those of Hugging Face
 * send it as the `value` of `json`, and a pattern as the `value` of `regex`.
 */
export function formatConstraint(format: JsonObject): FieldConstraint | undefined {
  const field = 'response_format'
  switch (format['type']) {
    case 'text':
      return undefined
    case 'json_object':
      if (format['schema'] === undefined) return { field, constraint: { type: 'json' } }
      return schemaConstraint(field, format['schema'], `${field}.schema`)
    case 'json':
      return schemaConstraint(field, format['value'], `${field}.value`)
    case 'regex': {
      const pattern = format['value']
      if (typeof pattern !== 'string') throw expectedField(`${field}.value`, 'a regular expression')
      return { field, constraint: { type: 'regex', pattern } }
    }
    case 'json_schema': {
      const inner = format['json_schema']
      const schema = isObject(inner) ? inner['schema'] : undefined
      return schemaConstraint(field, schema, `${field}.json_schema.schema`)
    }
    default:
  }
  throw expectedField(`${field}.type`, 'text, json_object or json_schema')
}

/** A number of tokens; −1: as many as fit. */
export const anyTokensField = integer(-1, largest).transform((count) =>
  count < 0 ? Infinity : count,
)

/** A number of tokens of at least 1; −1: as many as fit. */
export const maxTokensField = integer(-1, largest)
  .refine((count) => count !== 0, { error: '-1 or an integer from 1' })
  .pipe(anyTokensField)

/** Fields that are refused, most of them vLLM's. */
const refused = refusing({
  min_tokens: [integer(0, largest), 'with ignore_eos answers go on to max_tokens', 0],
  stop_token_ids: [list(integer(0, largest), 'token ids'), 'stop takes texts'],
  include_stop_str_in_output: [boolean, 'an answer ends before its stop text'],
  return_token_ids: [boolean, '/tokenize has the tokens of a text'],
  return_tokens_as_token_ids: [boolean, 'tokens are named by their texts'],
  prompt_logprobs: [integer(-1, largest), '/v1/completions has them with echo and logprobs'],
  truncate_prompt_tokens: [integer(-1, largest), 'send the part of the prompt that is to be read'],
  bad_words: [z.unknown(), 'logit_bias makes tokens unlikely'],
  allowed_token_ids: [z.unknown(), 'use a grammar or guided_regex'],
  use_beam_search: [boolean, 'best_of returns the likeliest of several answers'],
  prompt_embeds: [z.unknown(), 'prompts are texts or token ids'],
  chat_template: [z.unknown(), 'set by --chat-template; chat_template_kwargs are its variables'],
  documents: [z.unknown(), 'put them into a message'],
  web_search_options: [z.unknown(), 'offer a tool that searches'],
  mcp_servers: [z.unknown(), 'call the servers yourself, and offer their tools'],
})

/** The fields that chat and text completions share: OpenAI's, then those of other local servers. */
export const sharedFields = {
  model: z.string('a name').optional(),
  ...usualFields,
  // llama-server's name
  repeat_penalty: usualFields.repetition_penalty,
  logit_bias: logitBiasField.optional(),
  seed: seed.optional(),
  // Mistral's name
  random_seed: seed.optional(),
  stop: anyStop.optional(),
  n: integer(1, 128).optional(),
  stream: boolean.optional(),
  stream_options: z.object({ include_usage: boolean.nullish() }, 'an object').optional(),
  user: z.string('a string').optional(),
  max_tokens: maxTokensField.optional(),
  n_predict: maxTokensField.optional(),
  // llama-server's number of candidates, if `logprobs` is not a number
  n_probs: integer(0, 20).optional(),
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

/**
 * The settings from the shared fields, some of which llama-server's routes have as well.
 *
 * @throws `invalid_request`; `unsupported` for samplers in another order and what is refused
 */
export async function sharedSettings(
  fields: Partial<z.output<z.ZodObject<typeof sharedFields>>>,
  client: EngineClient,
): Promise<RequestSettings> {
  const { logit_bias: bias, samplers } = fields
  refused.check(fields)
  // timings include the cached tokens, which the first progress event tells
  const isTold = fields.return_progress === true || fields.timings_per_token === true
  return {
    ...commonSettings(fields),
    seed: fields.seed ?? fields.random_seed,
    ...(samplers !== undefined && samplersLeftOut(samplers)),
    maxTokens: fields.max_tokens ?? fields.n_predict,
    logitBias: bias && (await readLogitBias(client, bias)),
    stop: fields.stop,
    cache: fields.cache_prompt,
    slot: fields.id_slot,
    progress: (fields.stream === true && isTold) || undefined,
  }
}
