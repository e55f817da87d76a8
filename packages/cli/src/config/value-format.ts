/** What values a setting takes, and how they are written as text. */
export interface ValueFormat<T> {
  /** Throws on what is not allowed; this is the function that convict calls. */
  (value: unknown): asserts value is T
  /** Such as `a whole number from 1 to 256`. */
  readonly expected: string
  /** The value that a text stands for, in the environment or on the command line. */
  readonly parse: (text: string) => unknown
  /** A flag of this format stands alone (`--mmap`, `--no-mmap`). */
  readonly isSwitch: boolean
}

const unchanged = (text: string): unknown => text

/** A format from what it takes; `expected` says so to people. */
export const format = <T>(
  expected: string,
  accepts: (value: unknown) => boolean,
  parse: (text: string) => unknown = unchanged,
  isSwitch = false,
): ValueFormat<T> => {
  const check = (value: unknown) => {
    if (!accepts(value)) throw new TypeError(`expected ${expected}`)
  }
  return Object.assign(check, { expected, parse, isSwitch }) as ValueFormat<T>
}

/** The words of a text with commas between. */
export const splitAtCommas = (text: string): string[] =>
  text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')

/** Whether the format takes the value. */
export const accepts = (format: ValueFormat<unknown>, value: unknown): boolean => {
  const check: (value: unknown) => void = format
  try {
    check(value)
    return true
  } catch {
    return false
  }
}

interface Range {
  readonly minimum: number
  readonly maximum?: number
}

const rangeText = ({ minimum, maximum }: Range) =>
  maximum === undefined ? `from ${minimum} up` : `from ${minimum} to ${maximum}`

const isWithin = (value: unknown, { minimum, maximum = Infinity }: Range) =>
  typeof value === 'number' && Number.isFinite(value) && value >= minimum && value <= maximum

const parseNumber = (text: string): unknown =>
  /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : text

/** A whole number. */
export const integer = (range: Range): ValueFormat<number> =>
  format(
    `a whole number ${rangeText(range)}`,
    (value) => Number.isSafeInteger(value) && isWithin(value, range),
    parseNumber,
  )

/** A number with or without fraction; `unit` such as `seconds` is for the reader. */
export const decimal = (range: Range & { readonly unit?: string }): ValueFormat<number> =>
  format(
    `a number ${range.unit === undefined ? '' : `of ${range.unit} `}${rangeText(range)}`,
    (value) => isWithin(value, range),
    parseNumber,
  )

const switches: Readonly<Record<string, boolean>> = {
  true: true,
  on: true,
  yes: true,
  1: true,
  false: false,
  off: false,
  no: false,
  0: false,
}

const parseSwitch = (text: string): unknown => switches[text.trim().toLowerCase()] ?? text

/** True or false. */
export const toggle = (): ValueFormat<boolean> =>
  format('true or false', (value) => typeof value === 'boolean', parseSwitch, true)

/** True, false, or `auto`. */
export const toggleOrAuto = (): ValueFormat<boolean | 'auto'> =>
  format(
    'true, false or auto',
    (value) => typeof value === 'boolean' || value === 'auto',
    parseSwitch,
  )

/** A text that is not empty; `expected` says what it means. */
export const text = (expected = 'a text'): ValueFormat<string> =>
  format(expected, (value) => typeof value === 'string' && value.trim() !== '')

/** One of some words. */
export const oneOf = <const Word extends string>(words: readonly Word[]): ValueFormat<Word> =>
  format(
    words.length === 1 ? words[0]! : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`,
    (value) => words.some((word) => word === value),
  )

/** Some of these words, each once; as text with commas between. */
export const someOf = <const Word extends string>(
  words: readonly Word[],
): ValueFormat<readonly Word[]> =>
  format(
    `any of ${words.join(', ')}`,
    (value) => Array.isArray(value) && value.every((one) => words.some((word) => word === one)),
    splitAtCommas,
  )

/** Any texts, none of them empty; as text with commas between. */
export const someTexts = (expected: string): ValueFormat<readonly string[]> =>
  format(
    `a list of ${expected}`,
    (value) =>
      Array.isArray(value) && value.every((one) => typeof one === 'string' && one.trim() !== ''),
    splitAtCommas,
  )

/** What `inner` takes, or `auto`. */
export const orAuto = <T>(inner: ValueFormat<T>): ValueFormat<T | 'auto'> =>
  format(
    `${inner.expected}, or auto`,
    (value) => value === 'auto' || accepts(inner, value),
    inner.parse,
  )

/** What `inner` takes, or null, which is how YAML says that there is none. */
export const orNone = <T>(inner: ValueFormat<T>): ValueFormat<T | null> =>
  format(inner.expected, (value) => value === null || accepts(inner, value), inner.parse)

/** Whether a value has names with values. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Free names and values, such as a policy's options; as text they are JSON. */
export const record = (): ValueFormat<Readonly<Record<string, unknown>>> =>
  format('names with their values', isRecord, (text) => {
    try {
      return JSON.parse(text) as unknown
    } catch {
      return text
    }
  })

/** A plugin to load. */
export interface PluginEntry {
  /** Package name, or a path that starts with `./`, `../` or `/`. */
  readonly use: string
  readonly options: Readonly<Record<string, unknown>>
}

const isPluginEntry = (value: unknown): boolean =>
  isRecord(value) &&
  typeof value['use'] === 'string' &&
  value['use'].trim() !== '' &&
  isRecord(value['options']) &&
  Object.keys(value).every((key) => key === 'use' || key === 'options')

/** Plugins, as a list of names or of `{ use, options }`; as text, names with commas between. */
export const plugins = (): ValueFormat<readonly PluginEntry[]> =>
  format(
    'a list of plugin names or of { use, options }',
    (value) => Array.isArray(value) && value.every(isPluginEntry),
    splitAtCommas,
  )
