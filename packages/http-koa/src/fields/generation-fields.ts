import type { AdapterChoice, samplingFields, SamplingNumber } from '@cllm/core'
import { CllmError, samplingRows } from '@cllm/core'
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

/** A field for each parameter, under its name in the APIs. */
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

/** All fields, in the ranges of OpenAI or the wider ones of llama-server. */
const shapeOf = (isLlama: boolean): object =>
  Object.fromEntries(
    samplingRows.map((row) => [
      isLlama ? (row[1].llama ?? row[1].wire) : row[1].wire,
      field(row, isLlama).optional(),
    ]),
  )

const fewBreakers = 'an array of up to 32 strings of 1 to 40 characters'
const breaker = text.min(1, fewBreakers).max(40, fewBreakers)

/** Some clients send the list as JSON in a text. */
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

/** The parameters that `api.defaults` has, as the engine takes them. */
export const defaultsFields = Object.fromEntries(
  samplingRows
    .filter(([, row]) => row.option !== undefined)
    .map((row) => [row[1].wire, field(row, false, false).optional()]),
) as SamplingShape<OptionNumber[SamplingNumber]>

/**
 * The sampling parameters of a body, whose fields were checked.
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
export function samplingEcho(sampling: Readonly<Record<SamplingNumber, number>>) {
  const shown = samplingRows.map(([name, { wire, llama = wire, below }]) => {
    const value = sampling[name]
    const isBelow = echoesBelow.has(name) && value === below?.means
    return [llama, isBelow ? below.from : value]
  })
  return Object.fromEntries(shown) as { readonly [name: string]: number }
}

/** llama-server shows these as −1 where they mean the same. */
const echoesBelow: ReadonlySet<SamplingNumber> = new Set(['topNSigma', 'penaltyLastN'])

/** llama-server's steps in the order in which they run: each by its name, others and a letter. */
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
export const samplerSteps: readonly string[] = steps.map(([name]) => name)

// the last one is no longer llama.cpp's, but some clients still name it
const ignored = new Set(['infill', 'i', 'adaptive_p', 'a', 'tfs_z'])

/** llama-server's `samplers`: their names, or one letter for each. */
export const samplersField = texts('the names of samplers')

/**
 * What switches off the samplers that a list leaves out.
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

/** The names of the APIs for what an engine calls otherwise. */
const fieldNames: ReadonlyMap<unknown, string> = new Map([
  ...Object.entries({ slot: 'id_slot', tokens: 'prompt', adapters: 'lora' }),
  ...samplingRows.map(([name, { wire }]) => [name, wire] as const),
])

/** Throws an engine's refusal of a field with the field's name in place of the engine's own, other errors as they are. */
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
export type CommonFields = {
  readonly [Name in keyof typeof commonFields]?: z.output<(typeof commonFields)[Name]>
}

/** The settings from these fields and the sampling parameters beside them. */
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
    // what is to be done when the slot is full; undefined: as the server is set
    contextShift: shifts === true ? (keep === undefined ? {} : { keep }) : shifts,
  }
}

/** The slot that llama-server's `id_slot` names; −1 and none leave it to the engine. */
export const slotField = integer(-1, largest)
  .transform((id) => (id < 0 ? undefined : id))
  .optional()
