import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { attempt, CllmError, ownEntry } from '@cllm/core'
import type { SimulatedImages } from '@cllm/bench'
import { unknownFlag } from '../config/layers.js'
import { decimal, format, integer as wholeNumber, oneOf } from '../config/options/value-format.js'

export { duration } from '../config/options/value-format.js'

/** A flag of a command and how its values are read. */
export interface Flag<T> {
  /** Its description in `--help`. */
  readonly doc: string
  /** Placeholder for its value in `--help`; absent for a flag without a value. */
  readonly value?: string
  /** Parses all its values, in order; the list is empty when the flag is not given. */
  readonly read: (values: readonly string[]) => T
}

/** The values of a table of flags. */
export type Values<Flags> = {
  readonly [K in keyof Flags]: Flags[K] extends Flag<infer T> ? T : never
}

/**
 * A flag with one value; if it is repeated, the last value wins.
 *
 * @param parse - throws an Error that says what it expects. Default: the text as it is
 * @param fallback - the default as it would be written, which the help shows unless the description does; or
 *   a value that cannot be written
 */
export function one(value: string, doc: string): Flag<string | undefined>
export function one<T>(value: string, doc: string, parse: (text: string) => T): Flag<T | undefined>
export function one<T>(
  value: string,
  doc: string,
  parse: (text: string) => T,
  fallback: string | (T & object),
): Flag<T>
export function one(
  value: string,
  text: string,
  parse: (text: string) => unknown = String,
  fallback?: string | object,
): Flag<unknown> {
  const isShown = typeof fallback === 'string' && !text.includes('(default')
  const byDefault = () => (typeof fallback === 'string' ? parse(fallback) : fallback)
  return {
    value,
    doc: isShown ? `${text} (default ${fallback})` : text,
    read: (values) => (values.length === 0 ? byDefault() : parse(values.at(-1)!)),
  }
}

/** A flag that may be given several times. */
export function many(value: string, doc: string): Flag<string[]>
export function many<T>(value: string, doc: string, parse: (text: string) => T): Flag<T[]>
export function many(
  value: string,
  doc: string,
  parse: (text: string) => unknown = String,
): Flag<unknown> {
  return { value, doc, read: (values: readonly string[]) => values.map(parse) }
}

/** A flag without a value. */
export const toggle = (doc: string): Flag<boolean> => {
  return { doc, read: (values) => values.length > 0 }
}

/** Whether a command line has `--help`, `-h`, or `--help-all`, which differs where the flags are many. */
export const asksForHelp = (argv: readonly string[]): boolean =>
  argv.some((word) => /^(-h|--help|--help-all)$/.test(word))

/** A table of flags, by their names without the dashes. */
export type Flags = Readonly<Record<string, Flag<unknown>>>

/**
 * Parses a command line by a table of flags.
 *
 * @param onWord - takes each argument that is no flag. Default: there must be none
 * @param hint - the end of the message about an unknown flag
 * @throws `invalid_configuration` naming the flag, the expected value and the given one
 */
export function parseFlags<Table extends Flags>(
  argv: readonly string[],
  flags: Table,
  onWord = (word: string): void => {
    throw wrong(`unexpected argument "${word}"`)
  },
  hint = '',
): Values<Table> {
  const options = Object.fromEntries(
    Object.entries(flags).map(([name, { value }]) => [
      name,
      { type: value === undefined ? 'boolean' : 'string', multiple: true } as const,
    ]),
  )
  const { tokens } = parseArgs({ args: [...argv], options, strict: false, tokens: true })
  const given = new Map<string, string[]>()
  for (const token of tokens) {
    if (token.kind === 'positional') onWord(token.value)
    if (token.kind !== 'option') continue
    const flag = ownEntry(flags, token.name)
    if (flag === undefined) throw wrong(`${unknownFlag(token.rawName, Object.keys(flags))}${hint}`)
    if (flag.value === undefined && token.value !== undefined) {
      throw wrong(`--${token.name}: takes no value, got "${token.value}"`)
    }
    const isMissing = token.value === undefined || (!token.inlineValue && isFlag(token.value))
    if (flag.value !== undefined && isMissing)
      throw wrong(`--${token.name}: expected ${flag.value}`)
    given.set(token.name, [...(given.get(token.name) ?? []), token.value ?? ''])
  }
  const values = Object.entries(flags).map(([name, flag]) => {
    const texts = given.get(name) ?? []
    try {
      return [name, flag.read(texts)]
    } catch (error) {
      if (CllmError.isInstance(error)) throw error
      throw wrong(`--${name}: ${(error as Error).message}, got "${texts.at(-1)}"`)
    }
  })
  return Object.fromEntries(values) as Values<Table>
}

/** The lines of `--help` for a table of flags. */
export function flagsHelp(flags: Flags): string {
  const names = Object.entries(flags).map(([name, { value }]) =>
    value === undefined ? `--${name}` : `--${name} ${value}`,
  )
  const width = Math.max(...names.map((name) => name.length)) + 2
  return Object.values(flags)
    .map(({ doc }, index) => `  ${(names[index] as string).padEnd(width)}${doc}\n`)
    .join('')
}

/** An `invalid_configuration` error. */
export const wrong = (message: string) => new CllmError('invalid_configuration', message)

/** Whether a value is in fact the next flag; a negative number is not. */
const isFlag = (text: string) => /^--?[a-z]/i.test(text)

/** A whole number within limits. */
export const integer = (minimum: number, maximum?: number): ((text: string) => number) =>
  wholeNumber(minimum, maximum).read

/** The values of `parse`, or the word none for null. */
export const orNone =
  <T>(parse: (text: string) => T) =>
  (text: string): T | null =>
    text === 'none' ? null : parse(text)

/** A number from 0 up. */
export const number = decimal(0).read

/** A number above 0. */
export const positive = format<number>(
  'a number above 0',
  (value) => typeof value === 'number' && value > 0,
  decimal(0),
).read

/** A number from 0 to 1. */
export const share = decimal(0, 1).read

/** Several values, separated by commas. */
export const list =
  <T>(parse: (text: string) => T) =>
  (text: string): T[] =>
    text.split(',').map((part) => parse(part.trim()))

/** One of a few words. */
export const word = <const T extends string>(...words: readonly T[]): ((text: string) => T) =>
  oneOf(words).read

/** A file for results, which is checked before what may take hours. */
export function resultFile(path: string): string {
  const isNew = !existsSync(path)
  const checked = isNew ? dirname(path) : path
  const isOpen = attempt(() => accessSync(checked, constants.W_OK) === undefined, false)
  // such as an unset variable, or standard output in other programs
  const isNone = /^-?$|\/$/.test(path)
  if (!isNone && isOpen && statSync(checked).isDirectory() === isNew) return path
  throw new Error('expected a file that can be written')
}

/** A machine's number and the time when it drains, such as `3@60`. */
export function drain(text: string): { readonly machine: number; readonly at: number } {
  const [, machine, seconds] = /^(\d+)@(\d+(?:\.\d+)?)$/.exec(text) ?? []
  if (machine === undefined) throw new Error('expected a machine and seconds, such as 3@60')
  return { machine: Number(machine), at: 1000 * Number(seconds) }
}

/** The images of a simulated load: `0.3,1024,800`, or with the share of the machine that they take, `0.3,1024,800,0.1`. */
export function images(text: string): SimulatedImages {
  const [some = NaN, tokens = NaN, encodeMs = NaN, lostShare = 0, ...more] = text
    .split(',')
    .map(Number)
  const isMs = encodeMs >= 0 && encodeMs < Infinity
  const isRight = some >= 0 && some <= 1 && tokens >= 1 && Number.isInteger(tokens) && isMs
  if (isRight && lostShare >= 0 && lostShare < 1 && more.length === 0) {
    return { share: some, tokens, encodeMs, lostShare }
  }
  throw new Error('expected a share, tokens and milliseconds, such as 0.3,1024,800')
}
