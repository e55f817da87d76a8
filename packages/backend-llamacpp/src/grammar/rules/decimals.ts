/** A decimal number: `digits` divided by ten to the power of `decimals`. */
interface Decimal {
  readonly digits: bigint
  readonly decimals: number
}

/** A limit of numbers. */
export interface Bound {
  readonly value: number
  readonly isExclusive: boolean
}

/** The limits of numbers; undefined: there is no such limit. */
export interface Bounds {
  readonly minimum: Bound | undefined
  readonly maximum: Bound | undefined
}

/** The number of decimal digits that a double keeps. */
export const precision = 15
const least = 1n - 10n ** BigInt(precision)
/** Steps to divide decimal numbers of up to 600 digits. */
export const multipleSteps = 10

/** Converts a number to its decimal digits. */
export function toDecimal(value: number): Decimal {
  const [mantissa = '0', exponent = '0'] = String(value).split('e')
  const [whole = '0', fraction = ''] = mantissa.split('.')
  const digits = BigInt(whole + fraction)
  const decimals = fraction.length - Number(exponent)
  return decimals >= 0
    ? { digits, decimals }
    : { digits: digits * 10n ** BigInt(-decimals), decimals: 0 }
}

const scaled = ({ digits, decimals }: Decimal, to: number): bigint =>
  digits * 10n ** BigInt(to - decimals)

/** Whether a number is a multiple of another one, by their decimal digits. */
export function isMultiple(value: number, step: number): boolean {
  const [number, by] = [toDecimal(value), toDecimal(step)]
  const decimals = Math.max(number.decimals, by.decimals)
  return scaled(number, decimals) % scaled(by, decimals) === 0n
}

/** The smallest number that is a multiple of all steps; for integers also an integer. */
export function commonStep(steps: readonly number[], isInteger: boolean): Decimal {
  const all = [...steps.map(toDecimal), ...(isInteger ? [{ digits: 1n, decimals: 0 }] : [])]
  let decimals = Math.max(...all.map((step) => step.decimals))
  let digits = all.map((step) => scaled(step, decimals)).reduce((a, b) => (a / gcd(a, b)) * b)
  for (; decimals > 0 && digits % 10n === 0n; decimals--) digits /= 10n
  return { digits, decimals }
}

const gcd = (a: bigint, b: bigint): bigint => (b === 0n ? a : gcd(b, a % b))

/** The range of numbers with `decimals` decimals, without their points. */
export const digitsWithin = ({ minimum, maximum }: Bounds, decimals: number) => ({
  low: leastOf(minimum, decimals),
  // computed by the negatives, as x is below a limit if −x is above the negative limit
  high: -leastOf(maximum && { ...maximum, value: -maximum.value }, decimals),
})

/** The first number from a lower bound on that has `decimals` decimals, as an integer without the point. */
function leastOf(bound: Bound | undefined, decimals: number): bigint {
  if (bound === undefined) return least
  const exact = toDecimal(bound.value)
  const shift = decimals - exact.decimals
  const scale = 10n ** BigInt(Math.abs(shift))
  let found = shift >= 0 ? exact.digits * scale : exact.digits / scale
  const isCut = shift < 0 && found * scale !== exact.digits
  // division rounds towards zero
  if (isCut ? exact.digits > 0n : bound.isExclusive) found += 1n
  return found > least ? found : least
}
