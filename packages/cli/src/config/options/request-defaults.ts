import { defaultSampling, type samplingFields, type SamplingNumber, samplingRows } from '@cllm/core'
import { type Option, option } from './option.js'
import { decimal, integer, orNone } from './value-format.js'

type Fields = typeof samplingFields
type OptionName = {
  [Name in SamplingNumber]: Fields[Name] extends { option: string } ? Name : never
}[SamplingNumber]

/** The native API's own, where the engine has another. */
const native: Readonly<Partial<Record<SamplingNumber, number>>> = { topP: 0.9 }

/** An option for each sampling parameter that may have one. */
const sampling = Object.fromEntries(
  samplingRows.flatMap(([name, { wire, option: doc, integer: isWhole, usual, ...row }]) => {
    if (doc === undefined) return []
    const { min: minimum, max: maximum } = { ...row, ...usual }
    const bounds = { minimum, ...(maximum !== undefined && { maximum }) }
    const made = option({
      doc,
      default: native[name] ?? defaultSampling[name],
      format: isWhole === true ? integer(bounds) : decimal(bounds),
      arg: `default-${wire.replaceAll('_', '-')}`,
      placeholder: isWhole === true ? 'COUNT' : 'NUMBER',
    })
    return [[wire, made]]
  }),
) as { readonly [Name in OptionName as Fields[Name]['wire']]: Option<number> }

const { temperature, ...others } = sampling

/** Defaults for fields that a request leaves out: the branch `api.defaults` of the schema. */
export const requestDefaults = {
  max_tokens: option({
    doc: 'Maximum answer length, in tokens, for requests without a limit.',
    default: 100,
    format: integer({ minimum: 1 }),
    arg: 'default-max-tokens',
    placeholder: 'TOKENS',
  }),
  temperature,
  seed: option<number | null>({
    doc: 'Sampling seed; equal requests then get equal answers. Random by default.',
    default: null,
    format: orNone(integer({ minimum: 0, maximum: 2 ** 32 - 1 })),
    arg: 'default-seed',
    placeholder: 'NUMBER',
  }),
  ...others,
}
