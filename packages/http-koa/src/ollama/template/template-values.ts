import { refusedTemplate } from './template-tokens.js'

/** Something with members that Go writes with capitals, and that is shown as JSON. */
export class TemplateObject {
  /** @param shown - what it is in JSON */
  constructor(
    readonly members: Readonly<Record<string, unknown>>,
    readonly shown: unknown,
  ) {}
}

/** Whether Go takes a value for true: not for nothing, 0, or what is empty. */
export function isTrue(value: unknown): boolean {
  if (value instanceof TemplateObject) return true
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0
  return Boolean(value)
}

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

/** The member of this name: objects must have it, maps need not. */
export function memberOf(value: unknown, name: string): unknown {
  if (value instanceof TemplateObject) {
    if (Object.hasOwn(value.members, name)) return value.members[name]
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
  value instanceof TemplateObject ? undefined : memberOf(value, String(key))

const lengthOf = (value: unknown): number =>
  typeof value === 'string' ? Buffer.byteLength(value) : entriesIn(value).length

const sliced = (value: unknown, start: number, end: number): unknown =>
  typeof value === 'string'
    ? Buffer.from(value).subarray(start, end).toString()
    : Array.isArray(value)
      ? (value as unknown[]).slice(start, end)
      : undefined

const compared = (test: (order: number) => boolean) => (one: unknown, other: unknown) => {
  const [left, right] = [one ?? '', other ?? ''] as [string | number, string | number]
  return test(left < right ? -1 : left > right ? 1 : 0)
}

const isEqual = (one: unknown, other: unknown): boolean =>
  one === other || (typeof one === 'object' && shownText(one) === shownText(other))

/** Go's `%s`, `%v`, `%d`, `%q` and `%%`. */
const formatted = (format: unknown, ...given: readonly unknown[]): string => {
  let next = 0
  return shownText(format).replaceAll(/%[+#]?([svdqt%])/g, (_, verb: string) => {
    if (verb === '%') return '%'
    const text = shownText(given[next++])
    return verb === 'q' ? JSON.stringify(text) : text
  })
}

const json = (value: unknown): string => JSON.stringify(jsonOf(value)) ?? 'null'

/** The functions of Go's templates and those of Ollama's; `and` and `or` are the renderer's. */
export const templateFunctions: Readonly<Record<string, (...given: never[]) => unknown>> = {
  not: (value) => !isTrue(value),
  len: lengthOf,
  index: (value, ...keys) => keys.reduce<unknown>(at, value),
  slice: (value, start = 0, end?: number) => sliced(value, start, end ?? lengthOf(value)),
  eq: (one, ...others) => others.some((other) => isEqual(one, other)),
  ne: (one, other) => !isEqual(one, other),
  lt: compared((order) => order < 0),
  le: compared((order) => order <= 0),
  gt: compared((order) => order > 0),
  ge: compared((order) => order >= 0),
  print: (...given) => given.map(shownText).join(''),
  println: (...given) => `${given.map(shownText).join(' ')}\n`,
  printf: formatted,
  json,
  toJson: json,
}
