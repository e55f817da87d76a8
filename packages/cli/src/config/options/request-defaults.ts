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
    const { min, max } = { ...row, ...usual }
    const format = isWhole === true ? integer(min, max) : decimal(min, max)
    const details = { flag: `default-${wire.replaceAll('_', '-')}` }
    const made = option(format, native[name] ?? defaultSampling[name], details).describe(doc)
    return [[wire, made]]
  }),
) as { readonly [Name in OptionName as Fields[Name]['wire']]: Option<number> }

const { temperature, ...others } = sampling

/** Defaults for fields that a request leaves out: the branch `api.defaults` of the schema. */
export const requestDefaults = {
  max_tokens: option(integer(1, Infinity, 'TOKENS'), 100, { flag: 'default-max-tokens' }).describe(
    'Maximum answer length, in tokens, for requests without a limit.',
  ),
  temperature,
  seed: option(orNone(integer(0, 2 ** 32 - 1, 'NUMBER')), null, { flag: 'default-seed' }).describe(
    'Sampling seed; equal requests then get equal answers. Random by default.',
  ),
  ...others,
}
