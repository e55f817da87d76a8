import type { GenerateRequest, SamplingParams, TokenId } from '@cllm/core'
import { z } from 'zod'
import { parseFields } from '../parse-fields.js'
import type { JsonObject } from '../read-json-body.js'

/** What a request gets that does not say. */
export interface NativeDefaults {
  readonly maxTokens: number
  readonly sampling: Partial<SamplingParams>
}

/** The native API's documented defaults; the rest is the engine's. */
export const nativeDefaults: NativeDefaults = Object.freeze({
  maxTokens: 100,
  sampling: Object.freeze({ temperature: 0.7, topP: 0.9 }),
})

const number = (least: number, most: number) => {
  const expected = `a number from ${least} to ${most}`
  return z.number(expected).min(least, expected).max(most, expected)
}

const integer = (least: number, most: number) => {
  const expected = `an integer from ${least} to ${most}`
  return z.int(expected).min(least, expected).max(most, expected)
}

const milliseconds = z.number('a number above 0').positive('a number above 0')
const boolean = z.boolean('true or false')
const text = z.string('a text').min(1, 'a text that is not empty')
const name = z.string('a name').min(1, 'a name').max(256, 'a name of at most 256 characters')

// zod would check, and report, every element of a list of a million before its length
const isText = (value: unknown) => typeof value === 'string' && value !== ''
const stop = z.custom<string | string[]>(
  (value) => isText(value) || (Array.isArray(value) && value.length <= 32 && value.every(isText)),
  'a text or up to 32 texts, none of them empty',
)

const logitBias = z.custom<Readonly<Record<string, number>>>((value) => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const entries = Object.entries(value as Readonly<Record<string, unknown>>)
  return entries.length <= 1024 && entries.every(isBias)
}, 'an object of up to 1024 token ids with numbers from -100 to 100')

function isBias([token, bias]: readonly [string, unknown]): boolean {
  return /^\d{1,10}$/.test(token) && typeof bias === 'number' && Math.abs(bias) <= 100
}

/** The body of `/generate` and `/generate_stream`. Messages say what is expected. */
export const generateSchema = z.object({
  prompt: text,
  max_tokens: integer(1, 2 ** 31 - 1).optional(),
  temperature: number(0, 2).optional(),
  top_p: number(0, 1).optional(),
  top_k: integer(0, 2 ** 31 - 1).optional(),
  min_p: number(0, 1).optional(),
  seed: integer(0, 2 ** 32 - 1).optional(),
  repetition_penalty: number(0.01, 10).optional(),
  presence_penalty: number(-2, 2).optional(),
  frequency_penalty: number(-2, 2).optional(),
  logit_bias: logitBias.optional(),
  stop: stop.optional(),
  ignore_eos: boolean.optional(),
  stream: boolean.optional(),
  priority: integer(-(2 ** 31), 2 ** 31 - 1).optional(),
  deadline_ms: milliseconds.optional(),
  timeout_ms: milliseconds.optional(),
  tenant: name.optional(),
  session: name.optional(),
  cache: boolean.optional(),
  timings: boolean.optional(),
})

/** A checked request. */
export interface NativeRequest {
  readonly stream: boolean
  /** Whether the answer says how the request went. */
  readonly timings: boolean
  readonly maxTokens: number
  readonly request: GenerateRequest
}

/** Checks a body. Throws `invalid_request`. */
export function parseGenerateRequest(body: JsonObject, defaults: NativeDefaults): NativeRequest {
  const fields = parseFields(generateSchema, body)
  const maxTokens = fields.max_tokens ?? defaults.maxTokens
  const sampling = {
    temperature: fields.temperature,
    topP: fields.top_p,
    topK: fields.top_k,
    minP: fields.min_p,
    seed: fields.seed,
    repetitionPenalty: fields.repetition_penalty,
    presencePenalty: fields.presence_penalty,
    frequencyPenalty: fields.frequency_penalty,
    logitBias: fields.logit_bias && toPairs(fields.logit_bias),
    ignoreEos: fields.ignore_eos,
  }
  const options = {
    stop: typeof fields.stop === 'string' ? [fields.stop] : fields.stop,
    priority: fields.priority,
    deadlineMs: fields.deadline_ms,
    timeoutMs: fields.timeout_ms,
    tenant: fields.tenant,
    session: fields.session,
    cache: fields.cache,
  }
  return {
    stream: fields.stream ?? false,
    timings: fields.timings ?? false,
    maxTokens,
    request: {
      prompt: { text: fields.prompt },
      maxTokens,
      sampling: { ...defaults.sampling, ...withoutUndefined(sampling) },
      ...withoutUndefined(options),
    },
  }
}

function toPairs(bias: Readonly<Record<string, number>>): (readonly [TokenId, number])[] {
  return Object.entries(bias).map(([token, value]) => [Number(token), value])
}

type Defined<T> = { [Key in keyof T]?: Exclude<T[Key], undefined> }

function withoutUndefined<T extends object>(value: T): Defined<T> {
  const entries = Object.entries(value).filter(([, field]) => field !== undefined)
  return Object.fromEntries(entries) as Defined<T>
}
