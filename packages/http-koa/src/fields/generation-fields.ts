import type { AdapterChoice, samplingFields, SamplingNumber } from '@cllm/core'
import type { EngineInfo, GenerateRequest } from '@cllm/core'
import { CllmError, defaultSampling, samplingRows } from '@cllm/core'
import { z } from 'zod'
import type { RequestSettings } from '../request/build-request.js'
import { expectedField, unsupported } from '../request/refusals.js'
import {
  integer,
  largest,
  list,
  number,
  text,
  texts,
  boolean,
  milliseconds,
  name,
  parsedJson,
  type JsonObject,
} from './fields.js'

type Fields = typeof samplingFields

/** The type of the fields: one for each parameter, under its name in the APIs. */
type SamplingShape<Name extends SamplingNumber = SamplingNumber> = {
  readonly [Each in Name as Fields[Each]['wire']]: z.ZodOptional<z.ZodNumber>
}
type WithLlamaNames<Shape> = Omit<Shape, 'repetition_penalty'> & {
  readonly repeat_penalty: z.ZodOptional<z.ZodNumber>
}

type Row = (typeof samplingRows)[number]
type OptionNumber = {
  [Name in SamplingNumber]: Fields[Name] extends { option: string } ? Name : never
}

/** A number in the range of a row. */
function field([, row]: Row, isWide: boolean, takesBelow = true): z.ZodNumber {
  const { min, max = largest } = isWide ? row : { ...row, ...row.usual }
  const least = takesBelow ? (row.below?.from ?? min) : min
  return row.integer === true ? integer(least, max) : number(least, max)
}

/** All fields, in OpenAI's ranges or in llama-server's wider ones. */
const shapeOf = (isLlama: boolean): object =>
  Object.fromEntries(
    samplingRows.map((row) => [
      isLlama ? (row[1].llama ?? row[1].wire) : row[1].wire,
      field(row, isLlama).optional(),
    ]),
  )

const fewBreakers = 'an array of up to 32 strings of 1 to 40 characters'
const breaker = text.min(1, fewBreakers).max(40, fewBreakers)

/** Parses a list that some clients send as a JSON text. */
const fromJson = (value: unknown): unknown =>
  typeof value === 'string' ? (parsedJson(value) ?? value) : value

const breakers = {
  dry_sequence_breakers: z
    .preprocess(
      fromJson,
      list(breaker, fewBreakers, { least: [1, fewBreakers], most: [32, fewBreakers] }),
    )
    .optional(),
}

/** The parameters in OpenAI's ranges. */
export const usualFields = { ...(shapeOf(false) as SamplingShape), ...breakers }

/** The parameters in llama-server's names and ranges. */
export const llamaFields = { ...(shapeOf(true) as WithLlamaNames<SamplingShape>), ...breakers }

/** The parameters in `api.defaults`, as the engine takes them. */
export const defaultsFields = Object.fromEntries(
  samplingRows
    .filter(([, row]) => row.option !== undefined)
    .map((row) => [row[1].wire, field(row, false, false).optional()]),
) as SamplingShape<OptionNumber[SamplingNumber]>

/**
 * The sampling parameters in the checked fields of a body.
 *
 * @throws `invalid_request` for mirostat 1, which only llama.cpp has
 */
export function samplingSettings(fields: object): Omit<RequestSettings, 'logitBias'> {
  const given = fields as JsonObject
  if (given['mirostat'] === 1) throw expectedField('mirostat', '0 or 2, instead got 1')
  const settings: Record<string, unknown> = {
    seed: given['seed'],
    drySequenceBreakers: given['dry_sequence_breakers'],
  }
  for (const [name, { wire, llama = wire, min, below }] of samplingRows) {
    const value = (given[llama] ?? given[wire]) as number | undefined
    if (value !== undefined) settings[name] = below && value < min ? below.means : value
  }
  return settings
}

/** The parameters in llama-server's names, as its API shows them. */
function samplingEcho(sampling: Readonly<Record<SamplingNumber, number>>) {
  const shown = samplingRows.map(([name, { wire, llama = wire, below }]) => {
    const value = sampling[name]
    const isBelow = echoesBelow.has(name) && value === below?.means
    return [llama, isBelow ? below.from : value]
  })
  return Object.fromEntries(shown) as { readonly [name: string]: number }
}

/** llama-server shows the special values of these parameters as −1. */
const echoesBelow: ReadonlySet<SamplingNumber> = new Set(['topNSigma', 'penaltyLastN'])

/** llama-server's sampling steps in the order in which they run: each with its name, other names and its letter. */
const steps: readonly (readonly [name: string, ...others: string[]])[] = [
  ['penalties', 'e'],
  ['dry', 'd'],
  ['top_n_sigma', 'n', 's'],
  ['top_k', 'k'],
  ['typ_p', 'typical_p', 'y'],
  ['top_p', 'p'],
  ['min_p', 'm'],
  ['xtc', 'x'],
  ['temperature', 't'],
]

/** The names of the steps, in their order. */
const samplerSteps: readonly string[] = steps.map(([name]) => name)

// llama.cpp no longer has the last one, but some clients still name it
const ignored = new Set(['infill', 'i', 'adaptive_p', 'a', 'tfs_z'])

/** llama-server's `samplers`: a list of names, or a text with one letter for each. */
export const samplersField = texts('the names of samplers')

/**
 * Settings that switch off the samplers which a list leaves out.
 *
 * @throws `invalid_request` for an unknown name, `unsupported` for another order than the engine's
 */
export function samplersLeftOut(given: string | readonly string[]): RequestSettings {
  const names = typeof given === 'string' ? Array.from(given) : given
  const order = samplerSteps.join(', ')
  const places = names
    .filter((name) => !ignored.has(name))
    .map((name) => {
      const place = steps.findIndex((known) => known.includes(name))
      if (place >= 0) return place
      throw expectedField('samplers', `${order}, instead got ${name.slice(0, 40)}`)
    })
  if (places.some((place, index) => index > 0 && place < places[index - 1]!)) {
    throw unsupported('samplers', `they run in the order ${order}`)
  }
  const left = samplerSteps.filter((_, place) => !places.includes(place))
  const off = samplingRows.filter(([, { step = '' }]) => left.includes(step))
  return Object.fromEntries(off.map(([name, row]) => [name, row.off ?? row.default]))
}

/** The APIs' names of settings that the engine names differently. */
const fieldNames: ReadonlyMap<unknown, string> = new Map([
  ...Object.entries({ slot: 'id_slot', tokens: 'prompt', adapters: 'lora' }),
  ...samplingRows.map(([name, { wire }]) => [name, wire] as const),
])

/** Throws an engine's error, with the API's name of the field in place of the engine's. */
export function throwInFieldNames(error: unknown): never {
  if (!CllmError.isInstance(error)) throw error
  const { code, message, details } = error
  const name = details['field']
  const field = fieldNames.get(name)
  if (field === undefined) throw error
  const named = message.replace(`${String(name)}:`, `${field}:`)
  throw new CllmError(code, named, { details: { ...details, field }, cause: error })
}

const expected = 'the name of an adapter, or up to 8 of { id or name, scale }'

const choice = z
  .object({
    id: integer(0, largest).optional(),
    name: name.optional(),
    scale: number(-1000, 1000).optional(),
  })
  .refine(({ id, name }) => (id === undefined) !== (name === undefined), expected)
  .transform(({ id, name, scale }): AdapterChoice => ({
    adapter: id ?? name ?? '',
    ...(scale !== undefined && { scale }),
  }))

/** Adapters as llama-server takes them, by number or by name. */
export const adapterChoices = list(choice, expected, { most: [8, expected] })

/** The adapters of a request: `lora`. */
export const adaptersField = z.union(
  [name.transform((adapter): AdapterChoice[] => [{ adapter }]), adapterChoices],
  expected,
)

/** cLLM's own fields, which every protocol but Ollama's takes. */
export const commonFields = {
  ignore_eos: boolean.optional(),
  priority: integer(-(2 ** 31), largest).optional(),
  deadline_ms: milliseconds.optional(),
  timeout_ms: milliseconds.optional(),
  tenant: name.optional(),
  session: name.optional(),
  speculative: boolean.optional(),
  lora: adaptersField.optional(),
  context_shift: boolean.optional(),
  n_keep: integer(-1, largest).optional(),
  cllm: z
    .strictObject({ retain_s: number(0, 86_400).optional() }, 'an object with retain_s only')
    .optional(),
}

/** These fields of a body. */
export type CommonFields = Partial<z.output<z.ZodObject<typeof commonFields>>>

/** The settings from these fields and the sampling parameters in the same body. */
export function commonSettings(fields: CommonFields): RequestSettings {
  const { context_shift: shifts, n_keep: keep, cllm: { retain_s: retain } = {} } = fields
  return {
    ...samplingSettings(fields),
    ignoreEos: fields.ignore_eos,
    priority: fields.priority,
    deadlineMs: fields.deadline_ms,
    timeoutMs: fields.timeout_ms,
    tenant: fields.tenant,
    session: fields.session,
    retainMs: retain === undefined ? undefined : retain * 1000,
    speculative: fields.speculative,
    adapters: fields.lora,
    // what happens when the slot is full; undefined: the server's setting
    contextShift: shifts === true ? (keep === undefined ? {} : { keep }) : shifts,
  }
}

/** The slot of llama-server's `id_slot`; −1 or no value leave the choice to the engine. */
export const slotField = integer(-1, largest)
  .transform((id) => (id < 0 ? undefined : id))
  .optional()

/** The settings of a request in llama-server's names; settings that this server does not have are off. */
export function generationSettings(request: Partial<GenerateRequest>, info?: EngineInfo) {
  const recommended = info?.model.sampling
  const { contextShift, fallbackSampling, sampling: given, maxTokens = largest } = request
  const sampling = { ...defaultSampling, ...fallbackSampling, ...recommended, ...given }
  const most = maxTokens === largest ? -1 : maxTokens
  // a model may have further end tokens
  const eos = info?.model.details?.eosTokenId
  const ends = sampling.ignoreEos && eos !== undefined ? [eos] : []
  const { constraint } = sampling
  return {
    n_predict: most,
    max_tokens: most,
    seed: sampling.seed ?? 4_294_967_295,
    ...samplingEcho(sampling),
    dry_sequence_breakers: sampling.drySequenceBreakers,
    adaptive_target: -1,
    adaptive_decay: 0,
    stop: request.stop ?? [],
    n_keep: (contextShift || {}).keep ?? 0,
    n_discard: 0,
    ignore_eos: sampling.ignoreEos,
    stream: true,
    // null means −Infinity, for end tokens
    logit_bias: [
      ...ends.map((token) => ({ token, bias: null })),
      ...sampling.logitBias.map(([token, bias]) => ({ token, bias })),
    ],
    n_probs: request.logprobs ?? request.drawLogprobs ?? 0,
    grammar: constraint?.type === 'gbnf' ? constraint.grammar : '',
    grammar_lazy: constraint?.type === 'triggered-json',
    grammar_triggers: [],
    preserved_tokens: [],
    chat_format: 'Content-only',
    reasoning_format: 'deepseek',
    reasoning_in_content: false,
    generation_prompt: '',
    samplers: samplerSteps,
    'speculative.types': 'none',
    timings_per_token: false,
    post_sampling_probs: request.drawLogprobs !== undefined,
    backend_sampling: false,
    lora: (request.adapters ?? []).map(({ adapter, scale = null }) => ({
      [typeof adapter === 'number' ? 'id' : 'name']: adapter,
      scale,
    })),
  }
}
