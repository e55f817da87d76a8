import { GbnfWriter, maximumRepetitions } from '../gbnf/gbnf-writer.js'
import { automatonRule } from '../pattern/automaton-rule.js'
import { PatternProblem, unlessProblem } from '../pattern/parse-pattern.js'
import { patternRule } from '../pattern/pattern-rule.js'
import type { Amount } from '../gbnf/gbnf-reader.js'
import { refusedSchema, refusedStrings, type Spend } from '../refuse.js'
import { formatMatches, formatPatterns } from './formats.js'
import { jsonRule } from './json-rules.js'
import type { Facts } from '../schema/facts.js'
import { pointerOf, type RuleCompiler } from '../schema/schema-document.js'

const anyLength: Amount = { min: 0, max: Infinity }

/** The strings that are allowed as GBNF, or undefined when there is none. */
export function stringRule(compiler: RuleCompiler, facts: Facts): string | undefined {
  const { writer } = compiler
  const { minLength: min, maxLength: max, patterns } = facts
  checkCount(facts, 'minLength')
  if (min > max) return undefined
  const named = facts.formats.flatMap((format) => formatPatterns(format, max).at(-1) ?? [])
  if (patterns.length + named.length === 0) {
    if (facts.content.length > 0 && min === 0 && max === Infinity) {
      return compiler.quoted(facts.content)
    }
    if (min === 0 && max === Infinity) return jsonRule(writer, 'string')
    // one rule for all strings of this length, which is much to look at
    return writer.rule(`"\\"" ${untrimmed(writer, min, max)} "\\""`)
  }
  const pointer = pointerOf(facts, patterns.length === 0 ? 'format' : 'pattern')
  try {
    const inner =
      alone(compiler, facts, pointer) ??
      insideOf(compiler, facts, [...patterns, ...named], pointer) ??
      // a format is an annotation where a pattern says something else
      (patterns.length > 0 ? insideOf(compiler, facts, patterns, pointer) : undefined)
    return inner && `"\\"" ${inner} "\\""`
  } catch (error) {
    if (!(error instanceof PatternProblem)) throw error
    const inner = byFormat(compiler, facts, pointer)
    if (inner === undefined) throw refusedStrings(pointer, error.message)
    return `"\\"" ${inner} "\\""`
  }
}

/**
 * Characters of a string with a length. Who asks for some often trims the text before they are counted,
 * which no schema says: so the first one and the last one that must come are no spaces.
 */
function untrimmed(writer: GbnfWriter, min: number, max: number): string {
  const char = jsonRule(writer, 'char')
  if (min === 0) return writer.repeat(char, min, max)
  const solid = jsonRule(writer, 'solid')
  const between = min > 2 ? writer.repeat(char, min - 2, min - 2) : ''
  const parts = [solid, between, min > 1 ? solid : '', writer.repeat(char, 0, max - min)]
  return parts.filter((part) => part !== '').join(' ')
}

/** The widest strings of a format, where nothing else is said that they do not keep to. */
function alone(compiler: RuleCompiler, facts: Facts, pointer: string): string | undefined {
  const [widest, narrower] = facts.formats.flatMap((format) => formatPatterns(format))
  const isAlone = facts.patterns.length === 0 && facts.formats.length === 1
  if (!isAlone || narrower === undefined) return undefined
  const lengths = { min: facts.minLength, max: facts.maxLength }
  const spend = compiler.document.budget.at(pointer)
  const make = () => patternRule(compiler.writer, widest!, lengths, spend)
  return unlessProblem(
    () => compiler.once(JSON.stringify([widest, lengths]), pointer, make),
    () => undefined,
  )
}

/** Strings of a format whose texts match patterns that are more than an automaton can follow. */
function byFormat(compiler: RuleCompiler, facts: Facts, pointer: string): string | undefined {
  const spend = compiler.document.budget.at(pointer)
  for (const format of facts.formats) {
    if (!facts.patterns.every((one) => formatMatches(format, one, spend))) continue
    for (const pattern of formatPatterns(format)) {
      const rule = () => insideOf(compiler, facts, [pattern], pointer)
      const inner = unlessProblem(rule, () => undefined)
      if (inner !== undefined) return inner
    }
  }
  return undefined
}

/** What matches all of the patterns; undefined when nothing does. */
function insideOf(
  compiler: RuleCompiler,
  { minLength: min, maxLength: max }: Facts,
  patterns: readonly string[],
  pointer: string,
): string | undefined {
  const { writer, document } = compiler
  const spend = document.budget.at(pointer)
  const lengths = { min, max }
  return compiler.once(JSON.stringify([patterns, min, max]), pointer, () => {
    const [only] = patterns
    if (patterns.length === 1) {
      const rule = () => patternRule(writer, only!, lengths, spend)
      return unlessProblem(rule, () => automatonRule(writer, patterns, { lengths, spend }))
    }
    // what one of them says is not counted
    const counts = min > 0 || max < Infinity
    const keeps = counts && patterns.some((one) => keepsTo(one, lengths, spend))
    return automatonRule(writer, patterns, { lengths: keeps ? anyLength : lengths, spend })
  })
}

/** Whether all texts that match a pattern have such a length by themselves. */
function keepsTo(pattern: string, lengths: Amount, spend: Spend): boolean {
  const writer = new GbnfWriter()
  // a pattern of one repeated character is written with the counts that are asked for
  const within = (amount: Amount) => patternRule(writer, pattern, amount, spend)
  return unlessProblem(
    () => within(lengths) === within(anyLength),
    () => false,
  )
}

/** @throws CllmError `invalid_constraint` for what cannot be counted to */
export function checkCount(facts: Facts, keyword: 'minLength' | 'minItems'): void {
  const value = facts[keyword]
  if (value <= maximumRepetitions) return
  const reason = `expected at most ${maximumRepetitions}, got ${value}`
  throw refusedSchema(pointerOf(facts, keyword), reason)
}
