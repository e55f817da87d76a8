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

/** Writes the allowed strings as GBNF; undefined if there are none. */
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
    // one shared rule for all strings of this length, as it is large
    return writer.rule(`"\\"" ${untrimmed(writer, min, max)} "\\""`)
  }
  const pointer = pointerOf(facts, patterns.length === 0 ? 'format' : 'pattern')
  try {
    const inner =
      alone(compiler, facts, pointer) ??
      insideOf(compiler, facts, [...patterns, ...named], pointer) ??
      // if a pattern contradicts the format, the format is only an annotation
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
 * Writes the characters of a string with limits on its length. Validators often trim a text before they count, which
 * the schema does not tell. So the first and the last required character are no spaces.
 */
function untrimmed(writer: GbnfWriter, min: number, max: number): string {
  const char = jsonRule(writer, 'char')
  if (min === 0) return writer.repeat(char, min, max)
  const solid = jsonRule(writer, 'solid')
  const between = min > 2 ? writer.repeat(char, min - 2, min - 2) : ''
  const parts = [solid, between, min > 1 ? solid : '', writer.repeat(char, 0, max - min)]
  return parts.filter((part) => part !== '').join(' ')
}

/** Writes the widest strings of a format; undefined if there are other keywords that they do not fulfil. */
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

/** Writes strings of a format whose texts match the patterns, if no automaton can follow these. */
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

/** Writes the strings that match all of the patterns; undefined if there are none. */
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
    // if one of the patterns keeps to the lengths by itself, the automaton need not count
    const counts = min > 0 || max < Infinity
    const keeps = counts && patterns.some((one) => keepsTo(one, lengths, spend))
    return automatonRule(writer, patterns, { lengths: keeps ? anyLength : lengths, spend })
  })
}

/** Whether all texts that match a pattern have a length within `lengths` anyway. */
function keepsTo(pattern: string, lengths: Amount, spend: Spend): boolean {
  const writer = new GbnfWriter()
  // a pattern of one repeated character is written with the counts of `amount`: then the rules differ
  const within = (amount: Amount) => patternRule(writer, pattern, amount, spend)
  return unlessProblem(
    () => within(lengths) === within(anyLength),
    () => false,
  )
}

/** @throws CllmError `invalid_constraint` if the number is too large to count to */
export function checkCount(facts: Facts, keyword: 'minLength' | 'minItems'): void {
  const value = facts[keyword]
  if (value <= maximumRepetitions) return
  const reason = `expected at most ${maximumRepetitions}, got ${value}`
  throw refusedSchema(pointerOf(facts, keyword), reason)
}
