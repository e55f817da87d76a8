import { attempt, CllmError, defined, entryOf, type Logger } from '@cllm/core'
import { z } from 'zod'

/** Converts camelCase to the snake_case of the APIs: `logitBias` becomes `logit_bias`. */
export const snakeCase = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The object with its names in the snake_case of the APIs. */
export const inSnakeCase = (object: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [snakeCase(name), value]))

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a JSON value is an object and not a list. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value of a JSON text; undefined if it is not valid JSON. */
export const parsedJson = (text: string): unknown => attempt(() => JSON.parse(text) as unknown)

/** The compact JSON of an object, given as a value or as JSON; undefined for anything else. */
export function objectText(given: unknown): string | undefined {
  const value = typeof given === 'string' ? parsedJson(given) : given
  return isObject(value) ? JSON.stringify(value) : undefined
}

/** A number within bounds, which its error message names. */
export const number = (least: number, most: number) => {
  const expected = `a number from ${least} to ${most}`
  return z.number(expected).min(least, expected).max(most, expected)
}

/** An integer within bounds. */
export const integer = (least: number, most: number) => {
  const expected = `an integer from ${least} to ${most}`
  return z.int(expected).min(least, expected).max(most, expected)
}

/** The largest integer that fields take. */
export const largest = 2 ** 31 - 1

/** True or false. */
export const boolean = z.boolean('true or false')
/** A string. */
export const text = z.string('a string')
/** A string of 1 to 256 characters. */
export const name = text.min(1, 'a name').max(256, 'a name of at most 256 characters')
/** A duration above 0. */
export const milliseconds = z.number('a number above 0').positive('a number above 0')

/** Any integer is a seed, as with OpenAI; for Ollama and llama-server, −1 means a random one. */
export const seed = z.int('an integer')

/** Any object. */
export const object = z.custom<JsonObject>(isObject, 'an object').meta({ type: 'object' })

const isText = (value: unknown): boolean => typeof value === 'string' && value !== ''
const isAnyText = (value: unknown): boolean => typeof value === 'string'

// zod would check and report every element of a list of a million before checking its length
/** A text or a list of texts, each of which must satisfy `isOne`. */
export const texts = (expected: string, least = 0, most = Infinity, isOne = isAnyText) => {
  const maxItems = most < Infinity ? most : undefined
  const listed = { type: 'array', items: { type: 'string' }, ...defined({ maxItems }) }
  return z
    .custom<string | readonly string[]>(
      (value) =>
        isOne(value) ||
        (Array.isArray(value) &&
          value.length >= least &&
          value.length <= most &&
          value.every((one) => isOne(one))),
      expected,
    )
    .meta({ anyOf: [{ type: 'string' }, listed] })
}

/** Stop strings. */
export const stop = texts('a non-empty string or up to 32 of them', 0, 32, isText)

/** Whether a value is a list of token ids; the engine checks them against the vocabulary. */
export const isTokenList = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isInteger(id) && (id as number) >= 0)

/** Token ids to detokenize. The engine reports the first invalid one; zod would report all. */
export const tokenIds = z
  .custom<number[]>(Array.isArray, 'an array of token ids')
  .meta({ type: 'array', items: { type: 'integer', minimum: 0 } })

/** The JSON schema of a zod schema's input. */
export function schemaOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  })
  return described
}

/** The least and most elements of a list, each with its message. */
export interface ListBounds {
  readonly least?: readonly [count: number, expected: string]
  readonly most?: readonly [count: number, expected: string]
}

/**
 * An array of elements. Checking stops at the first invalid element: zod's own arrays report every one, which takes
 * gigabytes of memory for a body with a million zeros.
 */
export const list = <Element extends z.ZodType>(
  element: Element,
  expected: string,
  { least = [0, expected], most = [Infinity, expected] }: ListBounds = {},
) =>
  z
    .custom<readonly z.input<Element>[]>(Array.isArray, expected)
    .meta({
      type: 'array',
      items: schemaOf(element),
      ...(least[0] > 0 && { minItems: least[0] }),
      ...(most[0] < Infinity && { maxItems: most[0] }),
    })
    .transform((values, ctx): z.output<Element>[] => {
      if (values.length < least[0] || values.length > most[0]) {
        ctx.addIssue({ code: 'custom', message: values.length < least[0] ? least[1] : most[1] })
        return z.NEVER
      }
      const checked: z.output<Element>[] = []
      for (const [index, value] of values.entries()) {
        const result = element.safeParse(value)
        if (!result.success) {
          const [issue] = result.error.issues
          const path = [index, ...(issue?.path ?? [])]
          ctx.addIssue({ code: 'custom', message: issue?.message ?? expected, path })
          return z.NEVER
        }
        checked.push(result.data)
      }
      return checked
    })

/** Stop strings as other servers take them: empty ones are ignored. */
export const anyStop = z.union(
  [text, list(text, 'strings', { most: [32, 'at most 32'] })],
  'a string or up to 32 of them',
)

/**
 * Checks a body against a schema whose messages name what is expected ("a number from 0 to 2").
 *
 * @param at - the place of the value within the body; default: it is the body
 * @throws `invalid_request` with the first field at fault
 */
export function parseFields<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
  at: readonly string[] = [],
): z.output<Schema> {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  const [issue] = result.error.issues
  const path = issue?.path ?? []
  const field = [...at, ...path].join('.')
  const received = path.reduce<unknown>(
    (value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key],
    body,
  )
  // Schemas without a message of their own have zod's, such as "Too small: expected number to be >=1".
  const expected = issue?.message.replace(/^(?:[A-Z][a-z ]+: )?expected /, '') ?? ''
  const details = { field, expected, received: describe(received) }
  if (received === undefined) {
    throw new CllmError('invalid_request', `Missing required field: ${field}`, { details })
  }
  const message = `${field}: expected ${expected}, instead got ${details.received}`
  throw new CllmError('invalid_request', message, { details })
}

function describe(value: unknown): string {
  if (typeof value === 'string') {
    return value.length > 40 ? `a string of ${value.length} characters` : JSON.stringify(value)
  }
  if (Array.isArray(value))
    return value.length === 0 ? 'an empty array' : `an array of ${value.length}`
  if (isObject(value)) return 'an object'
  return String(value)
}

/** The most names to remember, so that clients cannot fill the memory or the log. */
const mostNames = 100

/** Logs a warning for unknown fields, once per name. */
export class UnknownFields {
  readonly #seen = new Set<string>()

  /** Logs a field that is not known. */
  warn(field: string, logger: Logger): void {
    if (this.#seen.has(field) || this.#seen.size >= mostNames || field.length > 100) return
    this.#seen.add(field)
    logger.warn({ field }, 'unknown field in a request is ignored')
  }
}

/**
 * The checked query of a request; a repeated name gets an array. Not koa's own `ctx.query`, which is quadratic: a query
 * of 15 KB blocks it for seconds.
 */
export function readQuery<Schema extends z.ZodObject>(
  { querystring }: { readonly querystring: string },
  schema: Schema,
): z.output<Schema> {
  const query = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(querystring)) {
    entryOf(query, name, () => []).push(value)
  }
  const given = Array.from(query, ([name, all]) => [name, all.length === 1 ? all[0] : all])
  return parseFields(schema, Object.fromEntries(given))
}

const units: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}

// no two parts of the pattern can match the same digits, so a failed match does not backtrack
const pattern = /^([+-]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h))+)$/

/** A century in milliseconds: longer times mean forever, as their end may be beyond the range of dates. */
const longestLife = 100 * 365 * 24 * 3_600_000

/**
 * Milliseconds of a time to live in Ollama's form: a number of seconds, or a duration such as `5m` or
 * `1h30m`. A negative value, and more than a century, means forever (Infinity). Undefined for anything else.
 */
export function parseKeepAlive(value: unknown): number | undefined {
  if (typeof value === 'number') return lifeOf(value * 1000)
  if (typeof value !== 'string' || value.trim() === '') return undefined
  const text = value.trim()
  if (Number.isFinite(Number(text))) return lifeOf(Number(text) * 1000)
  const [, sign, parts] = pattern.exec(text) ?? []
  if (parts === undefined) return undefined
  let sum = 0
  for (const [, count, unit] of parts.matchAll(/([\d.]+)([a-zµ]+)/g)) {
    sum += Number(count) * (units[unit ?? ''] ?? 0)
  }
  return lifeOf(sign === '-' ? -sum : sum)
}

function lifeOf(milliseconds: number): number | undefined {
  if (Number.isNaN(milliseconds)) return undefined
  return milliseconds < 0 || milliseconds > longestLife ? Infinity : milliseconds
}

const expected = 'a number of seconds or a duration such as 5m'

/** The field `keep_alive`: how long a model stays loaded after its last use, as milliseconds. */
export const keepAliveField = z
  .custom<string | number>((value) => parseKeepAlive(value) !== undefined, expected)
  .meta({ anyOf: [{ type: 'string' }, { type: 'number' }] })
  .transform((value) => parseKeepAlive(value))
  .optional()
