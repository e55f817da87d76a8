/** A whole number within limits. */
export function integer(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (text: string): number => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN
    if (value >= min && value <= max) return value
    const range = max === Number.MAX_SAFE_INTEGER ? `from ${min}` : `from ${min} to ${max}`
    throw new Error(`expected a whole number ${range}`)
  }
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

const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** A time such as `500ms`, `30s` or `2m`, in milliseconds. */
export function duration(text: string): number {
  const match = /^(\d*\.?\d+)(ms|s|m|h)$/.exec(text)
  if (match !== null) return Number(match[1]) * (units[match[2] as string] as number)
  throw new Error('expected a time such as 500ms, 30s or 2m')
}

/** One of a few words. */
export function word<T extends string>(...words: readonly T[]) {
  return (text: string): T => {
    const found = words.find((each) => each === text)
    if (found !== undefined) return found
    throw new Error(`expected ${words.join(', ')}`)
  }
}
