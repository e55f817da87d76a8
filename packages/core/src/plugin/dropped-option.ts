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
  const meant = didYouMean(dropped, valid)
  return `there is no option "${dropped}" (its options are ${valid.join(', ')})${meant}`
}
