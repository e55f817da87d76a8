import { attempt } from '@cllm/core'
import type { PluginEntry } from '@cllm/host'

/** The values that a setting accepts, and how they are written as text. */
export interface ValueFormat<T> {
  /** Throws for a value that is not allowed; this is the function that convict calls. */
  (value: unknown): asserts value is T
  /** Description of the accepted values, such as `a whole number from 1 to 256`. */
  readonly expected: string
  /** Parses the value from an environment variable or the command line. */
  readonly parse: (text: string) => unknown
  /** Parses and checks it. Throws an Error that says what was expected. */
  readonly read: (text: string) => T
  /** Placeholder for the value in help, such as `FILE`. */
  readonly placeholder: string
  /** A flag of this format stands alone (`--mmap`, `--no-mmap`). */
  readonly isSwitch: boolean
}

type FormatDetails = Partial<Pick<ValueFormat<unknown>, 'parse' | 'placeholder' | 'isSwitch'>>

/** Creates a format from a predicate; `expected` describes the accepted values in messages. */
export const format = <T>(
  expected: string,
  accepts: (value: unknown) => boolean,
  { parse = (text) => text, placeholder = 'VALUE', isSwitch = false }: FormatDetails = {},
): ValueFormat<T> => {
  const check = (value: unknown) => {
    if (!accepts(value)) throw new TypeError(`expected ${expected}`)
  }
  const read = (text: string) => {
    const value = parse(text)
    check(value)
    return value as T
  }
  return Object.assign(check, { expected, parse, read, placeholder, isSwitch }) as ValueFormat<T>
}

/** An empty text, as a variable that is set to nothing, means none. */
export const emptyToNone = (value: unknown): unknown => (value === '' ? null : value)

/** Splits a text at its commas, without empty parts. */
export const splitAtCommas = (text: string): string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')

/** Whether the format accepts the value. */
export const accepts = (format: ValueFormat<unknown>, value: unknown): boolean => {
  const check: (value: unknown) => void = format
  const isRight = () => {
    check(value)
    return true
  }
  return attempt(isRight, false)
}

const rangeText = (minimum: number, maximum: number) =>
  maximum === Infinity ? `from ${minimum} up` : `from ${minimum} to ${maximum}`

const isWithin = (value: unknown, minimum: number, maximum: number) =>
  typeof value === 'number' && Number.isFinite(value) && value >= minimum && value <= maximum

const parseNumber = (text: string): unknown =>
  /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : text

/** A whole number. */
export const integer = (minimum: number, maximum = Infinity, placeholder = 'COUNT') =>
  format<number>(
    `a whole number ${rangeText(minimum, maximum)}`,
    (value) => Number.isSafeInteger(value) && isWithin(value, minimum, maximum),
    { parse: parseNumber, placeholder },
  )

/** A number with or without a fraction; `unit`, such as `seconds`, is for messages. */
export const decimal = (minimum: number, maximum = Infinity, unit?: string) =>
  format<number>(
    `a number ${unit === undefined ? '' : `of ${unit} `}${rangeText(minimum, maximum)}`,
    (value) => isWithin(value, minimum, maximum),
    { parse: parseNumber, placeholder: unit?.toUpperCase() ?? 'NUMBER' },
  )

const parseSwitch = (text: string): unknown => {
  const word = text.trim().toLowerCase()
  if (['true', 'on', 'yes', '1'].includes(word)) return true
  return ['false', 'off', 'no', '0'].includes(word) ? false : text
}

/** True or false. */
export const toggle = (): ValueFormat<boolean> =>
  format('true or false', (value) => typeof value === 'boolean', {
    parse: parseSwitch,
    isSwitch: true,
  })

/** True, false, or `auto`. */
export const toggleOrAuto = (): ValueFormat<boolean | 'auto'> =>
  format('true, false or auto', (value) => typeof value === 'boolean' || value === 'auto', {
    parse: parseSwitch,
    placeholder: 'on|off|auto',
  })

const isText = (value: unknown): boolean => typeof value === 'string' && value.trim() !== ''

/** A text that is not empty; `expected` describes it in messages. */
export const text = (expected = 'a text'): ValueFormat<string> =>
  format(expected, isText, { placeholder: expected.split(' ')[1]!.toUpperCase() })

/** One of the given words. */
export const oneOf = <const Word extends string>(words: readonly Word[]): ValueFormat<Word> =>
  format(
    words.length === 1 ? words[0]! : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`,
    (value) => words.some((word) => word === value),
    { placeholder: words.join('|') },
  )

/**
 * A list of texts, none of them empty, or of the given words; written as text, they are separated by commas.
 */
export const someTexts = <Word extends string>(
  expected: string,
  placeholder: string,
  words?: readonly Word[],
): ValueFormat<readonly Word[]> =>
  format(
    `a list of ${expected}`,
    (value) =>
      Array.isArray(value) && value.every((one: Word) => words?.includes(one) ?? isText(one)),
    { parse: splitAtCommas, placeholder },
  )

/** Accepts the values of `inner`, and `auto`. */
export const orAuto = <T>(inner: ValueFormat<T>): ValueFormat<T | 'auto'> => {
  const isAuto = (value: unknown) => value === 'auto'
  return format(
    `${inner.expected}, or auto`,
    (value) => isAuto(value) || accepts(inner, value),
    inner,
  )
}

/** Accepts the values of `inner`, and null, which is "none" in YAML. */
export const orNone = <T>(inner: ValueFormat<T>): ValueFormat<T | null> =>
  format(inner.expected, (value) => value === null || accepts(inner, value), inner)

/** Refuses numbers such as `1e400`, which JSON allows and which would be read as infinity. */
const refuseInfinity = (_name: string, value: unknown): unknown => {
  if (value === Infinity || value === -Infinity) throw new RangeError('it is too large')
  return value
}

/** The value of a JSON text; another text as it is, for the check. */
export const parseJson = (text: string): unknown =>
  attempt(() => JSON.parse(text, refuseInfinity) as unknown, text)

/** Whether a value is an object, neither null nor an array. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Arbitrary names and values, such as a policy's options; written as text, they are JSON. */
export const record = (): ValueFormat<Readonly<Record<string, unknown>>> =>
  format('names with their values', isRecord, { parse: parseJson, placeholder: 'JSON' })

/** Names, each with a value of the same kind. */
export const recordOf = <T>(
  expected: string,
  isOne: (value: unknown) => boolean,
  details: FormatDetails,
): ValueFormat<Readonly<Record<string, T>>> =>
  format(
    expected,
    (value) => isRecord(value) && Object.values(value).every((one) => isOne(one)),
    details,
  )

/** Names with a text each; written as text, `NAME=VALUE` pairs separated by commas. */
export const pairs = (expected: string, placeholder: string) =>
  recordOf<string>(expected, isText, { parse: parsePairs, placeholder })

/** Reads `NAME=VALUE` pairs separated by commas; another text as it is, for the check. */
export const parsePairs = (text: string): unknown => {
  const all = splitAtCommas(text).map(readPair)
  return all.every((pair) => pair !== undefined) ? Object.fromEntries(all) : text
}

/** Parses `NAME=VALUE`; undefined for another text. */
export const readPair = (text: string): readonly [name: string, value: string] | undefined => {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? []
  return name === undefined || value === undefined ? undefined : [name.trim(), value.trim()]
}

const isPluginEntry = (value: unknown): boolean =>
  isRecord(value) &&
  isText(value['use']) &&
  isRecord(value['options']) &&
  Object.keys(value).every((key) => key === 'use' || key === 'options')

/** A list of plugin names or `{ use, options }`; written as text, names separated by commas. */
export const plugins = (): ValueFormat<readonly Required<PluginEntry>[]> =>
  format(
    'a list of plugin names or of { use, options }',
    (value) => Array.isArray(value) && value.every(isPluginEntry),
    { parse: splitAtCommas, placeholder: 'NAME' },
  )

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** The longest time, in milliseconds, that a timer of Node takes: a longer one would end at once. */
const longestMs = 2 ** 31 - 1

/**
 * A time such as `500ms`, `30s` or `2m`, in milliseconds.
 *
 * @throws Error that says what was expected
 */
export function duration(text: string): number {
  const match = /^(\d*\.?\d+)(ms|s|m|h)$/.exec(text)
  const ms = match === null ? NaN : Number(match[1]) * units[match[2]!]!
  if (ms <= longestMs) return ms
  throw new Error('expected a time such as 500ms, 30s or 2m, at most 596h')
}
