import { CllmError, type EngineClient, type GenerateRequest, type Prompt } from '@cllm/core'
import { z } from 'zod'
import { buildRequest } from '../request/build-request.js'
import { commonFields, commonSettings } from '../fields/common-fields.js'
import {
  boolean,
  integer,
  isTokenList,
  largest,
  logitBias,
  number,
  object,
  seed,
  text,
} from '../fields/fields.js'
import { list } from '../fields/list.js'
import { samplerFields, samplerSettings } from '../fields/sampler-fields.js'
import type { ProtocolDefaults } from '../request/protocol-defaults.js'
import { grammarConstraint, onlyConstraint } from '../request/constraint.js'
import { unsupported } from '../request/unsupported.js'

const prompt = z
  .custom<string | readonly number[]>(
    (value) => typeof value === 'string' || isTokenList(value),
    'a string or token ids',
  )
  .meta({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'integer' } }] })

/** llama-server also takes pairs, and false for a token that never comes. */
const biasPairs = z
  .custom<readonly (readonly [number, number | false])[]>(
    (value) => Array.isArray(value) && value.length <= 1024 && value.every(isPair),
    'an object, or up to 1024 pairs of a token id and a number or false',
  )
  .meta({ type: 'array', items: { type: 'array' } })

function isPair(value: unknown): boolean {
  if (!Array.isArray(value) || value.length !== 2) return false
  const [token, bias] = value as readonly unknown[]
  return Number.isInteger(token) && (token as number) >= 0 && isBias(bias)
}

const isBias = (bias: unknown) =>
  bias === false || (typeof bias === 'number' && Math.abs(bias) <= 100)

const fewTexts = 'an array of up to 32 strings'
const stops = list(text, fewTexts, { most: [32, fewTexts] })

/** The body of `POST /completion`. */
export const completionSchema = z.object({
  prompt,
  model: z.string('a name').optional(),
  n_predict: integer(-1, largest).optional(),
  max_tokens: integer(-1, largest).optional(),
  temperature: number(0, 100).optional(),
  top_k: integer(-1, largest).optional(),
  top_p: number(0, 1).optional(),
  min_p: number(0, 1).optional(),
  seed: seed.optional(),
  stop: z.union([text, stops], 'a string or up to 32 strings').optional(),
  repeat_penalty: number(0.01, 100).optional(),
  presence_penalty: number(-100, 100).optional(),
  frequency_penalty: number(-100, 100).optional(),
  logit_bias: z
    .union([biasPairs, logitBias], 'an object or pairs of a token id and a number')
    .optional(),
  cache_prompt: boolean.optional(),
  stream: boolean.optional(),
  return_tokens: boolean.optional(),
  n_probs: integer(0, 20).optional(),
  post_sampling_probs: boolean.optional(),
  grammar: text.optional(),
  json_schema: object.optional(),
  t_max_predict_ms: integer(-1, largest).optional(),
  id_slot: integer(-1, largest).optional(),
  timings_per_token: boolean.optional(),
  ...samplerFields,
  ...commonFields,
})

/** A checked body. */
export type CompletionFields = z.output<typeof completionSchema>

/** The engine's request of a body. */
export async function toCompletionRequest(
  fields: CompletionFields,
  client: EngineClient,
  defaults: ProtocolDefaults,
): Promise<GenerateRequest> {
  const { n_probs: logprobs = 0 } = fields
  if (logprobs > 0 && fields.post_sampling_probs === true) {
    throw unsupported('post_sampling_probs', "probabilities are the model's own, before sampling")
  }
  const { grammar, json_schema: schema } = fields
  const constraint = await onlyConstraint(client, [
    grammarConstraint(grammar),
    schema && { field: 'json_schema', constraint: { type: 'json-schema', schema } },
  ])
  const most = fields.n_predict ?? fields.max_tokens
  if (most === 0) {
    const message = 'n_predict: expected -1 or an integer from 1, instead got 0'
    throw new CllmError('invalid_request', message, { details: { field: 'n_predict' } })
  }
  const prompt: Prompt =
    typeof fields.prompt === 'string' ? { text: fields.prompt } : { tokens: fields.prompt }
  return buildRequest(
    prompt,
    {
      ...commonSettings(fields),
      ...samplerSettings(fields),
      maxTokens: most === -1 ? Infinity : most,
      constraint,
      logprobs: logprobs > 0 ? logprobs : undefined,
      stop:
        typeof fields.stop === 'string' ? fields.stop : fields.stop?.filter((text) => text !== ''),
      repetitionPenalty: fields.repeat_penalty,
      logitBias: biasOf(fields.logit_bias),
      cache: fields.cache_prompt,
    },
    defaults,
  )
}

/** So far below the others that it never comes, and still a number that JSON carries. */
const never = -1e9

function biasOf(
  bias: CompletionFields['logit_bias'],
): Readonly<Record<string, number>> | undefined {
  if (!Array.isArray(bias)) return bias as Readonly<Record<string, number>> | undefined
  const pairs = bias as readonly (readonly [number, number | false])[]
  return Object.fromEntries(pairs.map(([token, value]) => [token, value === false ? never : value]))
}
