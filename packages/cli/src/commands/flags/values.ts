export { duration } from '../../config/options/duration.js'

/** A whole number within limits. */
export function integer(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN
    if (value >= min && value <= max) return value
    const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
    throw new Error(`expected a whole number ${range}`)
  }
}

/** What `parse` takes, or the word none for null. */
export function orNone<T>(parse: (text: string) => T) {
  return (text: string): T | null => (text === 'none' ? null : parse(text))
}

/** A number from 0 up. */
export function number(text: string): number {
  if (/^\d*\.?\d+$/.test(text)) return Number(text)
  throw new Error('expected a number from 0 up')
}

/** A number above 0. */
export function positive(text: string): number {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN
  if (value > 0) return value
  throw new Error('expected a number above 0')
}

/** A number from 0 to 1. */
export function share(text: string): number {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN
  if (value >= 0 && value <= 1) return value
  throw new Error('expected a number from 0 to 1')
}

/** Several values, separated by commas. */
export function list<T>(parse: (text: string) => T) {
  return (text: string): T[] => text.split(',').map((part) => parse(part.trim()))
}

/** One of a few words. */
export function word<T extends string>(...words: readonly T[]) {
  return (text: string): T => {
    const found = words.find((each) => each === text)
    if (found !== undefined) return found
    throw new Error(`expected ${words.join(', ')}`)
  }
}

/** A machine's number and the time when it drains, such as `3@60`. */
export function drain(text: string): { readonly machine: number; readonly at: number } {
  const [, machine, seconds] = /^(\d+)@(\d+(?:\.\d+)?)$/.exec(text) ?? []
  if (machine === undefined) throw new Error('expected a machine and seconds, such as 3@60')
  return { machine: Number(machine), at: 1000 * Number(seconds) }
}
