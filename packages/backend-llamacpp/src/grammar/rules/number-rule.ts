import type { GbnfWriter } from '../gbnf/gbnf-writer.js'
import type { Facts } from '../schema/facts.js'
import { type RuleCompiler, whereOf } from '../schema/schema-document.js'
import type { Spend } from '../schema/schema-budget.js'
import {
  type Bounds,
  commonStep,
  digitsWithin,
  multipleSteps,
  precision,
  toDecimal,
} from './decimals.js'
import { DigitRules } from './digit-rules.js'
import { jsonRule } from './json-rules.js'

/** Further decimals allowed once a number is known to be in range. */
const furtherDigits = 6

/** To write a range of numbers. */
const numberSteps = 50

/** The numbers that are allowed as GBNF, or undefined when there is none that can be written. */
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
  // beside an exclusive limit there are more decimals than it has, but other numbers may have fewer
  const counts = Array.from({ length: decimals + 1 }, (_, count) => count)
  const parts = counts.slice(step === undefined ? 0 : -1).flatMap((count) => {
    const { low, high } = digitsWithin(facts, count)
    const rules = new DigitRules(writer, count, step?.digits ?? 1n, step === undefined, spend)
    const write = (from: bigint, to: bigint, isLimit: boolean): readonly string[] => {
      if (further === 0 || count < decimals) return rules.between(from, to)
      // A number goes away from zero with further digits, so the last step before a limit has none.
      const open = rules.between(from, isLimit ? to - 1n : to)
      const longer = open.map((text) => `(${text}) [0-9]{0,${further}}`)
      return isLimit && from <= to ? [...longer, ...rules.between(to, to)] : longer
    }
    const negative = low < 0n ? write(high < 0n ? -high : 1n, -low, minimum !== undefined) : []
    return [
      ...(high >= 0n ? write(low > 0n ? low : 0n, high, maximum !== undefined) : []),
      ...negative.map((part) => `"-" (${part})`),
    ]
  })
  return parts.length === 0 ? undefined : writer.rule(parts.join(' | '))
}

/** The decimals that tell numbers from their limits, and how many more there may be; 0: they would be too many. */
function fractionsOf({ minimum, maximum }: Bounds): { decimals: number; further: number } {
  const bounds = [minimum, maximum].filter((bound) => bound !== undefined)
  const isExclusive = bounds.some((bound) => bound.isExclusive)
  const exact = bounds.map(({ value }) => toDecimal(value))
  const decimals = Math.max(1, ...exact.map((bound) => bound.decimals)) + (isExclusive ? 1 : 0)
  const size = Math.max(...exact.map(({ digits }) => String(digits).length)) + decimals
  if (decimals > furtherDigits + 2 || size > precision) return { decimals: 0, further: 0 }
  return { decimals, further: Math.min(furtherDigits, precision - size) }
}
