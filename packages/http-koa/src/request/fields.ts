import { z } from 'zod'

/** A number within bounds; the message says which. */
export const number = (least: number, most: number) => {
  const expected = `a number from ${least} to ${most}`
  return z.number(expected).min(least, expected).max(most, expected)
}

/** A whole number within bounds. */
export const integer = (least: number, most: number) => {
  const expected = `an integer from ${least} to ${most}`
  return z.int(expected).min(least, expected).max(most, expected)
}

/** The largest whole number that fields take. */
export const largest = 2 ** 31 - 1

export const boolean = z.boolean('true or false')
export const text = z.string('a text')
export const name = text.min(1, 'a name').max(256, 'a name of at most 256 characters')
export const milliseconds = z.number('a number above 0').positive('a number above 0')

/** Any integer is a seed, as with OpenAI; Ollama and llama-server take −1 for a random one. */
export const seed = z.int('an integer')

/** Anything that is an object. */
export const object = z
  .custom<Readonly<Record<string, unknown>>>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'an object',
  )
  .meta({ type: 'object' })

// zod would check, and report, every element of a list of a million before its length
const isText = (value: unknown) => typeof value === 'string' && value !== ''

/** Texts that end the generation. */
export const stop = z
  .custom<string | string[]>(
    (value) => isText(value) || (Array.isArray(value) && value.length <= 32 && value.every(isText)),
    'a text or up to 32 texts, none of them empty',
  )
  .meta({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' }, maxItems: 32 }] })

/** What is added to the logits of tokens, by their ids. */
export const logitBias = z
  .custom<Readonly<Record<string, number>>>((value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
    const entries = Object.entries(value as Readonly<Record<string, unknown>>)
    return entries.length <= 1024 && entries.every(isBias)
  }, 'an object of up to 1024 token ids with numbers from -100 to 100')
  .meta({ type: 'object', additionalProperties: { type: 'number', minimum: -100, maximum: 100 } })

function isBias([token, bias]: readonly [string, unknown]): boolean {
  return /^\d{1,10}$/.test(token) && typeof bias === 'number' && Math.abs(bias) <= 100
}

/** Whether these may be token ids; the engine checks that they are in the vocabulary. */
export const isTokenList = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isInteger(id) && (id as number) >= 0)

/** Token ids to make text of. The engine says which of them is none: zod would report every one. */
export const tokenIds = z
  .custom<number[]>(Array.isArray, 'an array of token ids')
  .meta({ type: 'array', items: { type: 'integer', minimum: 0 } })
