import { entryOf } from '@cllm/core/defined'
import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Facts } from '../schema/facts.js'
import { type RuleCompiler, whereOf } from '../schema/schema-document.js'
import type { Spend } from '../refuse.js'
import {
  type Bounds,
  commonStep,
  digitsWithin,
  multipleSteps,
  precision,
  toDecimal,
} from './decimals.js'
import { choiceRule, jsonRule } from './json-rules.js'

/** The most further decimals after the digits that keep a number within its limits. */
const furtherDigits = 6

/** Steps to write a range of numbers. */
const numberSteps = 50

/** Writes the allowed numbers as GBNF; undefined if none can be written. */
export function numberRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { isInteger, minimum, maximum, multiples, places } = facts
  const pointer = whereOf(places)
  const spend = compiler.document.budget.at(pointer)
  const key = JSON.stringify([isInteger, minimum, maximum, multiples])
  return compiler.once(key, pointer, () => {
    spend(numberSteps)
    return numbers(compiler.writer, facts, spend)
  })
}

function numbers(writer: GbnfWriter, facts: Facts, spend: Spend): string | undefined {
  const { isInteger, minimum, maximum, multiples } = facts
  const hasStep = multiples.length > 0
  if (!hasStep && minimum === undefined && maximum === undefined) {
    return jsonRule(writer, isInteger ? 'integer' : 'number')
  }
  spend(multipleSteps * multiples.length)
  const step = hasStep || isInteger ? commonStep(multiples, isInteger) : undefined
  const { decimals, further } =
    step === undefined ? fractionsOf(facts) : { decimals: step.decimals, further: 0 }
  // close to an exclusive limit numbers need more decimals than the limit, other numbers may have fewer
  const counts = Array.from({ length: decimals + 1 }, (_, count) => count)
  const parts = counts.slice(step === undefined ? 0 : -1).flatMap((count) => {
    const { low, high } = digitsWithin(facts, count)
    const rules = new DigitRules(writer, count, step?.digits ?? 1n, step === undefined, spend)
    const goesOn = further > 0 && count === decimals
    const write = (from: bigint, to: bigint, isLimit: boolean): readonly string[] => {
      if (!goesOn) return rules.between(from, to)
      // Further digits move a number away from zero, so the last step before a limit gets none.
      const open = rules.between(from, isLimit ? to - 1n : to)
      const longer = open.map((text) => `(${text}) [0-9]{0,${further}}`)
      return isLimit && from <= to ? [...longer, ...rules.between(to, to)] : longer
    }
    // -0.05 is -0.0 with a further digit
    const smallest = goesOn ? 0n : 1n
    const negative =
      low < 0n ? write(high < 0n ? -high : smallest, -low, minimum !== undefined) : []
    return [
      ...(high >= 0n ? write(low > 0n ? low : 0n, high, maximum !== undefined) : []),
      ...negative.map((part) => `"-" (${part})`),
    ]
  })
  return parts.length === 0 ? undefined : writer.rule(parts.join(' | '))
}

/**
 * The decimals that are needed to keep numbers within their limits, and how many further ones are allowed; 0: there is
 * no room for any. A limit with more decimals, such as 3.141592653589793, counts as the next number inside of it. A
 * limit with more digits before the point than are ever written, such as the largest double, is ignored.
 */
function fractionsOf({ minimum, maximum }: Bounds): { decimals: number; further: number } {
  const bounds = [minimum, maximum].filter((bound) => bound !== undefined)
  const isExclusive = bounds.some((bound) => bound.isExclusive)
  const exact = bounds.map(({ value }) => toDecimal(value))
  const needed = Math.max(1, ...exact.map((bound) => bound.decimals)) + (isExclusive ? 1 : 0)
  const wholes = exact.map(
    ({ digits, decimals }) => String(digits).replace('-', '').length - decimals,
  )
  const left = precision - Math.max(1, ...wholes.filter((digits) => digits <= precision))
  const most = furtherDigits + 2
  // if the limits leave no room for further decimals, only smaller numbers get more
  const decimals = left > needed ? Math.min(needed, most) : most
  return { decimals, further: Math.max(0, Math.min(furtherDigits, left - decimals)) }
}

/** The most multiples that are listed one by one if the states of their digits would be too many. */
const mostListed = 1000n
/** The most states of the digits: remainders times digits. */
const mostStates = 600
/** Steps for each state, which has ten digits. */
const stateSteps = 10

/**
 * Writes numbers that are not negative as GBNF, digit by digit: there is one rule for each combination of the digits
 * that the limits still allow, and of the remainder of the digits so far.
 */
class DigitRules {
  readonly #known = new Map<string, string | undefined>()

  /**
   * @param decimals - the number of digits behind the point
   * @param step - the numbers, without their points, are multiples of this
   * @param isExact - whether all decimals are written; otherwise zeros at the end may be left out
   */
  constructor(
    private readonly writer: GbnfWriter,
    private readonly decimals: number,
    private readonly step: bigint,
    private readonly isExact: boolean,
    private readonly spend: Spend,
  ) {}

  /** Writes the multiples in a range, without their points, as alternatives; of too many, those with few digits. */
  between(from: bigint, to: bigint): readonly string[] {
    const { decimals, step } = this
    if (from > to) return []
    if (decimals === 0 && step % 10n === 0n) return this.#withZeros(from, to)
    const first = (from + step - 1n) / step
    const most = BigInt(Math.floor(mostStates / Number(step)))
    const isLong = step > 1n && BigInt(String(to).length) > most
    if (!isLong) return this.#within(from, to)
    const short = 10n ** most - 1n
    const areFew = short / step - first < mostListed
    return areFew ? this.#listed(first, to / step) : this.#within(from, short)
  }

  /** Writes multiples of, for example, 3,000 as multiples of 3 with three zeros. */
  #withZeros(from: bigint, to: bigint): readonly string[] {
    const zeros = /0*$/.exec(String(this.step))![0]
    const unit = BigInt(`1${zeros}`)
    const others = new DigitRules(this.writer, 0, this.step / unit, true, this.spend)
    const above = from > 0n ? (from + unit - 1n) / unit : 1n
    const found = others.between(above, to / unit).map((text) => `(${text}) "${zeros}"`)
    return from > 0n ? found : ['"0"', ...found]
  }

  #listed(first: bigint, last: bigint): readonly string[] {
    const texts: string[] = []
    for (let nth = first; nth <= last && nth - first < mostListed; nth++) {
      this.spend(2)
      const digits = String(nth * this.step).padStart(this.decimals + 1, '0')
      const point = digits.length - this.decimals
      const fraction = digits.slice(point).replace(/0+$/, '')
      texts.push(digits.slice(0, point) + (fraction === '' ? '' : `.${fraction}`))
    }
    return texts.length === 0 ? [] : [this.writer.rule(choiceRule(this.writer, texts))]
  }

  #within(from: bigint, to: bigint): readonly string[] {
    const shortest = this.decimals + 1
    const found: (string | undefined)[] = []
    /** The lengths of which all numbers are in the range. */
    const whole: number[] = []
    const longest = Math.max(String(to).length, shortest)
    for (let length = Math.max(String(from).length, shortest); length <= longest; length++) {
      const least = length === shortest ? 0n : 10n ** BigInt(length - 1)
      const most = 10n ** BigInt(length) - 1n
      if (length > shortest && from <= least && most <= to) whole.push(length - shortest)
      else {
        const [low, high] = [from > least ? from : least, to < most ? to : most]
        const digits = (value: bigint) => String(value).padStart(length, '0')
        found.push(this.#from(digits(low), digits(high), 0))
      }
    }
    if (whole.length > 0) {
      const more = (remainder: number) => this.#more(remainder, whole[0]!, whole.at(-1)!)
      found.push(this.#digits([1, 9], 0, more).join(' | '))
    }
    return found.filter((text) => text !== undefined && text !== '') as string[]
  }

  /** Writes the digits from `low` to `high`, of equal length, that make a multiple of the step behind `remainder`. */
  #from(low: string, high: string, remainder: number): string | undefined {
    const { length } = low
    if (length === 0) return remainder === 0 ? '' : undefined
    const isAny = /^0*$/.test(low) && /^9*$/.test(high)
    if (isAny && this.step === 1n) return this.#any(length - this.decimals, length - this.decimals)
    const point = length === this.decimals ? '"." ' : ''
    const canEnd = length <= this.decimals && this.#endsIn(low, remainder)
    return this.#rule(`${low} ${high} ${remainder}`, () => {
      const longer = this.#digits([Number(low[0]), Number(high[0])], remainder, (next, digit) =>
        this.#from(
          digit === Number(low[0]) ? low.slice(1) : '0'.repeat(length - 1),
          digit === Number(high[0]) ? high.slice(1) : '9'.repeat(length - 1),
          next,
        ),
      ).map((text) => point + text)
      return canEnd ? [...longer, '""'] : longer
    })
  }

  /** Whether only zeros may follow, which may be left out. */
  #endsIn(low: string, remainder: number): boolean {
    const rest = BigInt(remainder) * 10n ** BigInt(low.length)
    return !this.isExact && /^0*$/.test(low) && rest % this.step === 0n
  }

  /** Writes `min` to `max` more digits before the point, and all digits behind it. */
  #more(remainder: number, min: number, max: number): string | undefined {
    if (this.step === 1n) return this.#any(min, max)
    const { decimals } = this
    return this.#rule(`${remainder} ${min}-${max}`, () => {
      const next = (rest: number) => this.#more(rest, Math.max(0, min - 1), max - 1)
      const end =
        min > 0 ? undefined : this.#from('0'.repeat(decimals), '9'.repeat(decimals), remainder)
      const more = max > 0 ? this.#digits([0, 9], remainder, next) : []
      return end === undefined ? more : [...more, end === '' ? '""' : end]
    })
  }

  /** Writes `min` to `max` arbitrary digits before the point, and all behind it; a negative number: fewer of these. */
  #any(min: number, max: number): string {
    const { decimals } = this
    const point = max < 0 ? '' : '"."'
    const before = max > 0 ? times(min, max) : ''
    const left = decimals + Math.min(0, max)
    if (decimals === 0) return before
    if (this.isExact) return `${before} ${point} ${times(left)}`.trim()
    return `${before} ${point === '' ? times(0, left) : `("." ${times(1, left)})?`}`.trim()
  }

  /** Writes the digits from `first` to `last`, with what may follow each. */
  #digits(
    [first, last]: readonly [number, number],
    remainder: number,
    after: (remainder: number, digit: number) => string | undefined,
  ): string[] {
    const byRest = new Map<string, number[]>()
    for (let digit = first; digit <= last; digit++) {
      const rest = after((remainder * 10 + digit) % Number(this.step), digit)
      if (rest !== undefined) entryOf(byRest, rest, () => []).push(digit)
    }
    return [...byRest].map(([rest, digits]) => {
      const [least, most] = [digits[0]!, digits.at(-1)!]
      const isRange = digits.length > 2 && most - least + 1 === digits.length
      return `[${isRange ? `${least}-${most}` : digits.join('')}] ${rest}`.trim()
    })
  }

  #rule(key: string, make: () => readonly string[]): string | undefined {
    return entryOf(this.#known, key, () => {
      this.spend(stateSteps)
      const parts = make()
      return parts.length < 2 ? parts[0] : this.writer.rule(parts.join(' | '))
    })
  }
}

const times = (min: number, max = min): string =>
  max === 1 && min === 1 ? '[0-9]' : `[0-9]{${min === max ? min : `${min},${max}`}}`
