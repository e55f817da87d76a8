import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import { jsonRule } from './json-rules.js'

/** A limit of numbers. */
export interface Bound {
  readonly value: number
  readonly isExclusive: boolean
}

/** What numbers are allowed. */
export interface NumberFacts {
  readonly isInteger: boolean
  readonly minimum: Bound | undefined
  readonly maximum: Bound | undefined
}

/** Digits that a double keeps. */
const precision = 15
const limit = 10n ** BigInt(precision) - 1n
/** Further decimals allowed once a number is known to be in range. */
const furtherDigits = 6

/** A decimal number: `digits` divided by ten to the power of `decimals`. */
export interface Decimal {
  readonly digits: bigint
  readonly decimals: number
}

/** The numbers in the range as GBNF, or undefined when there is none that can be written. */
export function numberRule(writer: GbnfWriter, facts: NumberFacts): string | undefined {
  const { isInteger, minimum, maximum } = facts
  if (minimum === undefined && maximum === undefined) {
    return jsonRule(writer, isInteger ? 'integer' : 'number')
  }
  const whole = signed(integerLimit(minimum, 'min'), integerLimit(maximum, 'max'), (low, high) =>
    digitRanges(low, high),
  )
  const parts = isInteger ? whole : [...whole, ...fractions(minimum, maximum)]
  return parts.length === 0 ? undefined : writer.rule(parts.join(' | '))
}

/** Numbers with a fixed count of decimals, and behind them further ones where none can matter. */
function fractions(minimum: Bound | undefined, maximum: Bound | undefined): string[] {
  const bounds = [minimum, maximum].filter((bound) => bound !== undefined)
  const isExclusive = bounds.some((bound) => bound.isExclusive)
  const exact = bounds.map(({ value }) => toDecimal(value))
  const decimals = Math.max(1, ...exact.map((bound) => bound.decimals)) + (isExclusive ? 1 : 0)
  const size = Math.max(...exact.map(({ digits }) => String(digits).length)) + decimals
  const further = Math.min(furtherDigits, precision - size)
  if (decimals > furtherDigits + 2 || size > precision) return []
  // beside an exclusive limit there are more decimals than it has, but other numbers may have fewer
  const shorter = Array.from({ length: decimals - 1 }, (_, index) => {
    const { low, high } = digitsWithin({ minimum, maximum }, index + 1)
    return signed(low, high, (from, to) => digitRanges(from, to, index + 1))
  })
  const { low, high } = digitsWithin({ minimum, maximum }, decimals)
  // A number goes away from zero with further digits, so the last step before a limit has none.
  const inner = further > 0 ? ` [0-9]{0,${further}}` : ''
  const body = (from: bigint, to: bigint, isLast: boolean): string[] => {
    const open = isLast ? to - 1n : to
    return [
      ...(open >= from ? [`(${digitRanges(from, open, decimals)})${inner}`] : []),
      ...(isLast && to >= from ? [digitRanges(to, to, decimals)] : []),
    ]
  }
  const positive = high >= 0n ? body(low > 0n ? low : 0n, high, maximum !== undefined) : []
  const least = high < 0n ? -high : 1n
  const negative = low < 0n ? body(least, -low, minimum !== undefined) : []
  return [...shorter.flat(), ...positive, ...negative.map((part) => `"-" (${part})`)]
}

function signed(low: bigint, high: bigint, write: (low: bigint, high: bigint) => string): string[] {
  const parts: string[] = []
  if (high >= 0n && high >= low) parts.push(write(low > 0n ? low : 0n, high))
  if (low < 0n && high >= low) parts.push(`"-" (${write(high < 0n ? -high : 1n, -low)})`)
  return parts
}

/** The range of numbers with `decimals` decimals, without their points. */
export const digitsWithin = (
  { minimum, maximum }: Pick<NumberFacts, 'minimum' | 'maximum'>,
  decimals: number,
): { readonly low: bigint; readonly high: bigint } => ({
  low: scaledLimit(minimum, decimals, 'min'),
  high: scaledLimit(maximum, decimals, 'max'),
})

function integerLimit(bound: Bound | undefined, side: 'min' | 'max'): bigint {
  return scaledLimit(bound, 0, side)
}

/** The first number within the bound that has `decimals` decimals, as an integer without the point. */
function scaledLimit(bound: Bound | undefined, decimals: number, side: 'min' | 'max'): bigint {
  const sign = side === 'min' ? 1n : -1n
  const furthest = -sign * limit
  if (bound === undefined) return furthest
  const exact = toDecimal(bound.value)
  const shift = decimals - exact.decimals
  const scale = 10n ** BigInt(Math.abs(shift))
  let scaled = shift >= 0 ? exact.digits * scale : exact.digits / scale
  const isCut = shift < 0 && scaled * scale !== exact.digits
  // Division goes towards zero.
  const isOutside = isCut && (side === 'min' ? exact.digits > 0n : exact.digits < 0n)
  if (isOutside || (bound.isExclusive && !isCut)) scaled += sign
  return side === 'min' ? larger(scaled, furthest) : -larger(-scaled, -furthest)
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

/** A number's decimal digits. */
export function toDecimal(value: number): Decimal {
  const [mantissa = '0', exponent = '0'] = String(value).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const digits = BigInt(whole + fraction)
  const decimals = fraction.length - Number(exponent)
  return decimals >= 0
    ? { digits, decimals }
    : { digits: digits * 10n ** BigInt(-decimals), decimals: 0 }
}

/** What each digit of a number may be: from the first to the last one. */
type DigitPattern = readonly (readonly [first: number, last: number])[]

const ten = 10n

/**
 * The numbers from `min` to `max`, none negative, as GBNF.
 * @param decimals - number of digits after the decimal point
 */
function digitRanges(min: bigint, max: bigint, decimals = 0): string {
  const patterns: DigitPattern[] = []
  const shortest = Math.max(String(min).length, decimals + 1)
  for (let length = shortest; length <= Math.max(String(max).length, decimals + 1); length++) {
    const least = length === decimals + 1 ? 0n : ten ** BigInt(length - 1)
    const most = ten ** BigInt(length) - 1n
    const low = digits(min > least ? min : least, length)
    const high = digits(max < most ? max : most, length)
    patterns.push(...between(low, high))
  }
  return joined(patterns, decimals).join(' | ')
}

/** As GBNF; numbers of any digits are one alternative for all lengths. */
function joined(patterns: readonly DigitPattern[], decimals: number): readonly string[] {
  const whole = patterns.filter((pattern) => pattern.length > decimals + 1 && isAny(pattern))
  const [first] = whole
  if (first === undefined) return patterns.map((pattern) => write(pattern, decimals))
  const others = patterns.filter((pattern) => !whole.includes(pattern))
  const least = first.length - decimals - 1
  const most = whole.at(-1)!.length - decimals - 1
  const fraction = decimals === 0 ? '' : ` "." ${'[0-9] '.repeat(decimals).trimEnd()}`
  return [
    ...others.map((pattern) => write(pattern, decimals)),
    `[1-9] [0-9]{${least},${most}}${fraction}`,
  ]
}

/** Lengths follow one another, so that those of any digits do, too. */
const isAny = (pattern: DigitPattern): boolean =>
  pattern.every(([first, last], index) => first === (index === 0 ? 1 : 0) && last === 9)

function digits(value: bigint, length: number): number[] {
  return Array.from(String(value).padStart(length, '0'), Number)
}

/** Every sequence of digits from the low to the high one, both of one length. */
function between(low: readonly number[], high: readonly number[]): DigitPattern[] {
  const [first = 0, ...lowRest] = low
  const [last = 0, ...highRest] = high
  if (low.length === 0) return [[]]
  if (first === last) return between(lowRest, highRest).map((rest) => [[first, first], ...rest])
  const zeros = lowRest.map(() => 0)
  const nines = lowRest.map(() => 9)
  const startsWhole = lowRest.every((digit) => digit === 0)
  const endsWhole = highRest.every((digit) => digit === 9)
  const from = startsWhole ? first : first + 1
  const to = endsWhole ? last : last - 1
  const patterns: DigitPattern[] = []
  if (!startsWhole) {
    patterns.push(...between(lowRest, nines).map((rest) => [[first, first], ...rest] as const))
  }
  if (from <= to) patterns.push([[from, to], ...zeros.map(() => [0, 9] as const)])
  if (!endsWhole) {
    patterns.push(...between(zeros, highRest).map((rest) => [[last, last], ...rest] as const))
  }
  return patterns
}

function write(pattern: DigitPattern, decimals: number): string {
  const classes = pattern.map(([first, last]) =>
    first === last ? `"${first}"` : `[${first}-${last}]`,
  )
  if (decimals > 0) classes.splice(classes.length - decimals, 0, '"."')
  return classes.join(' ')
}
