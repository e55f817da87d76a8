import type { ObjectSchema, OptionsSchema } from '../contracts/definition.js'
import { didYouMean } from '../errors/did-you-mean.js'

/**
 * What is wrong where a schema drops an option that it does not know without a word, as zod's `z.object`
 * does; undefined: it knows them all.
 *
 * @param parsed - what the schema made of them
 */
export function droppedOption(
  schema: OptionsSchema<unknown>,
  given: Readonly<Record<string, unknown>>,
  parsed: unknown,
): string | undefined {
  const { shape } = schema as Partial<ObjectSchema<unknown>>
  if (shape === undefined) return undefined
  const valid = Object.keys(shape)
  const known = new Set([...valid, ...Object.keys(parsed ?? {})])
  const dropped = Object.keys(given).find((option) => !known.has(option))
  if (dropped === undefined) return undefined
  return noSuchOption(dropped, valid)
}

/** Says that an option is none of the valid ones. */
export function noSuchOption(option: string, valid: readonly string[]): string {
  const known = valid.length === 0 ? 'it has no options' : `its options are ${valid.join(', ')}`
  return `there is no option "${option}" (${known})${didYouMean(option, valid)}`
}
