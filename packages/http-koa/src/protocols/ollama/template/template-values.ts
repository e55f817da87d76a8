import { refusedTemplate } from './template-tokens.js'

/** Something with members that Go writes with capitals, and that is shown as JSON. */
export class TemplateObject {
  /**
   * @param shown - what it is in JSON
   * @param isMap - whether other members than these are nothing, instead of a mistake
   */
  constructor(
    readonly members: Readonly<Record<string, unknown>>,
    readonly shown: unknown,
    readonly isMap = false,
  ) {}
}

/** Whether Go takes a value for true: not for nothing, 0, or what is empty. */
export const isTrue = (value: unknown): boolean =>
  hasEntries(value) ? entriesOf(value) > 0 : Boolean(value)

/** Whether it is a list or a map. */
const hasEntries = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !(value instanceof TemplateObject)

/** How long it takes to read a value, as characters of a text; an entry of a map takes as long as some. */
export const effortOf = (value: unknown): number =>
  typeof value === 'string'
    ? value.length
    : Array.isArray(value)
      ? Math.ceil(value.length / effortOfEntry)
      : hasEntries(value)
        ? entriesOf(value) * effortOfEntry
        : 0

/** As characters of a text: to go through a map or a list takes this much for each entry. */
export const effortOfEntry = 16

const entriesOf = (value: object): number =>
  Array.isArray(value) ? value.length : Object.keys(value).length

/** A value as a template shows it. */
export function shownText(value: unknown): string {
  if (value === undefined || value === null) return ''
  if (typeof value === 'string') return value
  if (typeof value === 'object') return JSON.stringify(jsonOf(value))
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

/** A value without the classes of this file. */
function jsonOf(value: unknown): unknown {
  if (value instanceof TemplateObject) return value.shown
  if (Array.isArray(value)) return value.map(jsonOf)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, jsonOf(inner)]))
}

/** The member of this name: objects must have it, what is a map need not. */
export function memberOf(value: unknown, name: string): unknown {
  if (value instanceof TemplateObject) {
    if (Object.hasOwn(value.members, name)) return value.members[name]
    if (value.isMap) return undefined
    throw refusedTemplate(`.${name}, which there is none of`)
  }
  if (typeof value !== 'object' || value === null) return undefined
  return Object.hasOwn(value, name) ? (value as Readonly<Record<string, unknown>>)[name] : undefined
}

/** What `range` goes through: keys in their order, as Go does. */
export function entriesIn(value: unknown): readonly (readonly [string | number, unknown])[] {
  if (Array.isArray(value)) return value.map((item, index) => [index, item])
  if (typeof value === 'number') {
    return Array.from({ length: Math.min(value, 1000) }, (_, index) => [index, index])
  }
  if (typeof value !== 'object' || value === null || value instanceof TemplateObject) return []
  return Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1))
}

const at = (value: unknown, key: unknown): unknown =>
  value instanceof TemplateObject || (typeof key !== 'string' && typeof key !== 'number')
    ? undefined
    : memberOf(value, String(key))

const lengthOf = (value: unknown): number =>
  typeof value === 'string' ? Buffer.byteLength(value) : hasEntries(value) ? entriesOf(value) : 0

const sliced = (value: unknown, start: number, end: number): unknown =>
  typeof value === 'string'
    ? Buffer.from(value).subarray(start, end).toString()
    : Array.isArray(value)
      ? (value as unknown[]).slice(start, end)
      : undefined

const compared = (test: (order: number) => boolean) => (one: unknown, other: unknown) => {
  const [left, right] = [comparable(one), comparable(other)]
  return test(left < right ? -1 : left > right ? 1 : 0)
}

const comparable = (value: unknown): string | number =>
  typeof value === 'string' || typeof value === 'number' ? value : ''

type ShowsText = (value: unknown) => string

const isEqual = (shown: ShowsText, one: unknown, other: unknown): boolean =>
  one === other || (typeof one === 'object' && shown(one) === shown(other))

/** Go's `%s`, `%v`, `%d`, `%q` and `%%`. */
function formatted(shown: ShowsText, format: unknown, given: readonly unknown[]): string {
  let next = 0
  return shown(format).replaceAll(/%[+#]?([svdqt%])/g, (_, verb: string) => {
    if (verb === '%') return '%'
    const text = shown(given[next++])
    return verb === 'q' ? JSON.stringify(text) : text
  })
}

/** A value as JSON, texts in quotes. */
export const jsonText = (value: unknown): string => JSON.stringify(jsonOf(value)) ?? 'null'

/** What a function of templates is called with. */
export type TemplateFunction = (...given: never[]) => unknown

/**
 * The functions of Go's templates and those of Ollama's; `and` and `or` are the renderer's.
 *
 * @param shown - shows a value as {@link shownText} does
 * @param json - writes it as {@link jsonText} does
 */
export const templateFunctions = (
  shown: ShowsText,
  json: ShowsText,
): Readonly<Record<string, TemplateFunction>> => ({
  not: (value) => !isTrue(value),
  len: lengthOf,
  index: (value, ...keys) => keys.reduce<unknown>(at, value),
  slice: (value, start = 0, end?: number) => sliced(value, start, end ?? lengthOf(value)),
  eq: (one, ...others) => others.some((other) => isEqual(shown, one, other)),
  ne: (one, other) => !isEqual(shown, one, other),
  lt: compared((order) => order < 0),
  le: compared((order) => order <= 0),
  gt: compared((order) => order > 0),
  ge: compared((order) => order >= 0),
  print: (...given) => given.map(shown).join(''),
  println: (...given) => `${given.map(shown).join(' ')}\n`,
  printf: (format, ...given) => formatted(shown, format, given),
  json,
  toJson: json,
})
