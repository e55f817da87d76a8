import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import { choiceRule } from './json-rules.js'
import { type Decimal, digitsWithin, type NumberFacts, toDecimal } from './number-rule.js'
import type { Spend } from '../schema/schema-budget.js'

/** This many multiples are listed one by one. */
const mostListed = 1000

/** Steps to divide decimal numbers of up to 600 digits. */
export const multipleSteps = 10

/** Whether a number is a multiple of another one, as its decimal digits say. */
export function isMultiple(value: number, step: number): boolean {
  const [number, by] = [toDecimal(value), toDecimal(step)]
  const decimals = Math.max(number.decimals, by.decimals)
  return scaled(number, decimals) % scaled(by, decimals) === 0n
}

/** The multiples of some numbers in a range as GBNF, or undefined when there is none. */
export function multipleRule(
  writer: GbnfWriter,
  facts: NumberFacts,
  steps: readonly number[],
  spend: Spend,
): string | undefined {
  spend(multipleSteps * steps.length)
  const step = commonStep(steps.map(toDecimal), facts.isInteger)
  const { digits: size, decimals } = step
  const { low, high } = digitsWithin(facts, decimals)
  const [first, last] = [ceilDiv(low, size), floorDiv(high, size)]
  if (first > last) return undefined
  const count = last - first + 1n
  const listed = (from: bigint, to: bigint): string => {
    spend(2 * Number(to - from))
    const texts: string[] = []
    for (let nth = from; nth <= to; nth++) texts.push(text(nth * size, decimals))
    return writer.rule(choiceRule(writer, texts))
  }
  const most = BigInt(mostListed) - 1n
  if (count <= BigInt(mostListed)) return listed(first, last)
  if (first > 0n) return listed(first, first + most)
  if (last < 0n) return listed(last - most, last)
  const rule = memberOfRule(writer, step, { low, high }, spend)
  if (rule !== undefined) return rule
  const half = most / 2n
  return listed(first > -half ? first : -half, last < half ? last : half)
}

const scaled = ({ digits, decimals }: Decimal, to: number): bigint =>
  digits * 10n ** BigInt(to - decimals)

/** The smallest number that all steps divide, and for integers one that is an integer. */
function commonStep(steps: readonly Decimal[], isInteger: boolean): Decimal {
  const decimals = Math.max(...steps.map((step) => step.decimals))
  const unit = 10n ** BigInt(decimals)
  const all = [...steps.map((step) => scaled(step, decimals)), ...(isInteger ? [unit] : [])]
  const digits = all.reduce((a, b) => (a / gcd(a, b)) * b)
  let common: Decimal = { digits, decimals }
  while (common.decimals > 0 && common.digits % 10n === 0n) {
    common = { digits: common.digits / 10n, decimals: common.decimals - 1 }
  }
  return common
}

const gcd = (a: bigint, b: bigint): bigint => (b === 0n ? a : gcd(b, a % b))

function floorDiv(a: bigint, b: bigint): bigint {
  return a >= 0n || a % b === 0n ? a / b : a / b - 1n
}

const ceilDiv = (a: bigint, b: bigint): bigint => -floorDiv(-a, b)

/** A number without zeros behind its decimals. */
function text(digits: bigint, decimals: number): string {
  const sign = digits < 0n ? '-' : ''
  const all = String(digits < 0n ? -digits : digits).padStart(decimals + 1, '0')
  const fraction = all.slice(all.length - decimals).replace(/0+$/, '')
  const whole = all.slice(0, all.length - decimals)
  return decimals === 0 || fraction === '' ? sign + whole : `${sign}${whole}.${fraction}`
}

/** States of the automaton at most: remainders times digits. */
const mostStates = 600
/** Each state has ten digits. */
const stateSteps = 10
/** Digits that a double keeps. */
const precision = 15

/**
 * The multiples of a step as GBNF, read digit by digit with the remainder of what has come: with as
 * many digits as are surely in the range. Undefined where there would be too many states.
 *
 * @param range - of the numbers without their decimal points; it holds 0
 */
function memberOfRule(
  writer: GbnfWriter,
  { digits, decimals }: Decimal,
  { low, high }: { readonly low: bigint; readonly high: bigint },
  spend: Spend,
): string | undefined {
  // what is a multiple of 1,000 is a multiple of 1 with three zeros
  const zeros = decimals > 0 ? 0 : trailingZeros(digits)
  const by = Number(digits / 10n ** BigInt(zeros))
  const room = Math.floor(mostStates / by)
  const fixed = zeros + decimals
  const most = Math.min(room, precision - fixed)
  if (most < 2) return undefined
  spend(stateSteps * by * most)
  const wholes = (limit: bigint): number => Math.min(most, String(limit + 1n).length - 1 - fixed)
  const automaton = new Remainders(writer, by, decimals, '0'.repeat(zeros))
  const positive = automaton.upTo(wholes(high))
  const negative = automaton.upTo(wholes(-low))
  const parts = [
    '"0"',
    ...(positive === undefined ? [] : [positive]),
    ...(negative === undefined ? [] : [`"-" ${negative}`]),
  ]
  return writer.rule(parts.join(' | '))
}

function trailingZeros(digits: bigint): number {
  return /0*$/.exec(String(digits))![0].length
}

/** Rules for the rest of a number, by the remainder of its digits so far. */
class Remainders {
  readonly #rules = new Map<string, string | undefined>()

  constructor(
    private readonly writer: GbnfWriter,
    private readonly by: number,
    private readonly decimals: number,
    private readonly zeros: string,
  ) {}

  /** Numbers above 0 with at most this many digits before the point; undefined: there is none. */
  upTo(whole: number): string | undefined {
    if (whole < 1) return undefined
    const first = this.#digits(0, 1, (remainder) => this.#whole(remainder, whole - 1))
    const small = this.decimals > 0 ? this.#fraction(0, this.decimals, true) : undefined
    const parts = [...first, ...(small === undefined ? [] : [`"0." ${small}`])]
    return parts.length === 0 ? undefined : this.writer.rule(parts.join(' | '))
  }

  /** Behind a digit before the point; `left` more may come there. */
  #whole(remainder: number, left: number): string | undefined {
    return this.#known(`w${remainder} ${left}`, () => {
      const more =
        left === 0 ? [] : this.#digits(remainder, 0, (next) => this.#whole(next, left - 1))
      const fraction =
        this.decimals === 0 ? undefined : this.#fraction(remainder, this.decimals, false)
      return [
        ...more,
        ...(fraction === undefined ? [] : [`"." ${fraction}`]),
        ...(this.#isMultiple(remainder, this.decimals) ? [`"${this.zeros}"`] : []),
      ]
    })
  }

  /** Digits behind the point, one at least and `left` at most; `isZero`: not zeros alone. */
  #fraction(remainder: number, left: number, isZero: boolean): string | undefined {
    return this.#known(`f${remainder} ${left} ${isZero}`, () => {
      const after = (next: number, digit: number): string | undefined => {
        const still = isZero && digit === 0
        const more = left === 1 ? undefined : this.#fraction(next, left - 1, still)
        const ends = !still && this.#isMultiple(next, left - 1)
        if (more === undefined) return ends ? '""' : undefined
        return ends ? this.writer.rule(`${more} | ""`) : more
      }
      return this.#digits(remainder, 0, after)
    })
  }

  #isMultiple(remainder: number, decimals: number): boolean {
    return (BigInt(remainder) * 10n ** BigInt(decimals)) % BigInt(this.by) === 0n
  }

  /** The digits from `first` on with what may follow each. */
  #digits(
    remainder: number,
    first: number,
    after: (remainder: number, digit: number) => string | undefined,
  ): string[] {
    const byRest = new Map<string, number[]>()
    for (let digit = first; digit < 10; digit++) {
      const rest = after((remainder * 10 + digit) % this.by, digit)
      if (rest !== undefined) byRest.set(rest, [...(byRest.get(rest) ?? []), digit])
    }
    return [...byRest].map(([rest, digits]) => `[${digits.join('')}] ${rest}`)
  }

  #known(key: string, make: () => readonly string[]): string | undefined {
    if (this.#rules.has(key)) return this.#rules.get(key)
    const parts = make()
    const rule = parts.length === 0 ? undefined : this.writer.rule(parts.join(' | '))
    this.#rules.set(key, rule)
    return rule
  }
}
