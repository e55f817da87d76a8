import { type GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Spend } from '../schema/schema-budget.js'
import { choiceRule } from './choice-rule.js'
import { type Decimal, digitsWithin, type NumberFacts, toDecimal } from './number-rule.js'
import { memberOfRule } from './multiple-digits.js'

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
