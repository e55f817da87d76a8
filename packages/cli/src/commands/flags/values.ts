import {
  accepts,
  decimal,
  format,
  integer as wholeNumber,
  oneOf,
  type ValueFormat,
} from '../../config/options/value-format.js'

export { duration } from '../../config/options/value-format.js'

/** Reads a flag's text by a format of the configuration. */
function read<T>(values: ValueFormat<T>): (text: string) => T {
  return (text) => {
    const value = values.parse(text)
    if (accepts(values, value)) return value as T
    throw new Error(`expected ${values.expected}`)
  }
}

/** A whole number within limits. */
export function integer(minimum: number, maximum?: number): (text: string) => number {
  return read(wholeNumber({ minimum, ...(maximum === undefined ? {} : { maximum }) }))
}

/** The values of `parse`, or the word none for null. */
export function orNone<T>(parse: (text: string) => T) {
  return (text: string): T | null => (text === 'none' ? null : parse(text))
}

/** A number from 0 up. */
export const number = read(decimal({ minimum: 0 }))

/** A number above 0. */
export const positive = read(
  format<number>(
    'a number above 0',
    (value) => typeof value === 'number' && value > 0,
    decimal({ minimum: 0 }).parse,
  ),
)

/** A number from 0 to 1. */
export const share = read(decimal({ minimum: 0, maximum: 1 }))

/** Several values, separated by commas. */
export function list<T>(parse: (text: string) => T) {
  return (text: string): T[] => text.split(',').map((part) => parse(part.trim()))
}

/** One of a few words. */
export function word<const T extends string>(...words: readonly T[]): (text: string) => T {
  return read(oneOf(words))
}

/** A machine's number and the time when it drains, such as `3@60`. */
export function drain(text: string): { readonly machine: number; readonly at: number } {
  const [, machine, seconds] = /^(\d+)@(\d+(?:\.\d+)?)$/.exec(text) ?? []
  if (machine === undefined) throw new Error('expected a machine and seconds, such as 3@60')
  return { machine: Number(machine), at: 1000 * Number(seconds) }
}
