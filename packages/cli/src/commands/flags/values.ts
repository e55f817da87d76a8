import type { SimulatedImages } from '@cllm/bench'
import {
  decimal,
  format,
  integer as wholeNumber,
  oneOf,
} from '../../config/options/value-format.js'

export { duration } from '../../config/options/value-format.js'

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
