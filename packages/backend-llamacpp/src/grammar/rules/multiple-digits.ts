import { type GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Spend } from '../schema/schema-budget.js'
import type { Decimal } from './number-rule.js'

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
export function memberOfRule(
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
