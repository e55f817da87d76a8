import { GbnfWriter, oneOf } from '../gbnf/gbnf-writer.js'
import { automatonRule } from './automaton-rule.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import { refused } from '../refuse.js'
import { SchemaBudget } from '../schema/schema-budget.js'

/**
 * A grammar whose texts a regular expression matches as a whole.
 * @throws CllmError `invalid_constraint` for what no automaton can follow
 */
export function regexGbnf(pattern: string): string {
  const writer = new GbnfWriter()
  writer.define('root', regexRule(writer, pattern))
  return writer.toString()
}

/**
 * The texts that a regular expression matches as a whole, as a part of a grammar.
 * @throws CllmError `invalid_constraint` for what no automaton can follow
 */
export function regexRule(writer: GbnfWriter, pattern: string): string {
  try {
    const rule = automatonRule(writer, [`^(?:${pattern})$`], {
      lengths: { min: 0, max: Infinity },
      write: (set) => (set.length === 0 ? undefined : oneOf(set)),
      spend: new SchemaBudget().at('#'),
    })
    if (rule === undefined) throw new PatternProblem('no text matches it')
    return rule
  } catch (error) {
    if (!(error instanceof PatternProblem)) throw error
    throw refused('The regular expression cannot be kept to', error.message)
  }
}

/** A pattern that the strings match that a pattern does not match: by look-ahead from the beginning. */
export function notPattern(pattern: string): string {
  let alternatives
  try {
    ;({ alternatives } = parsePattern(pattern))
  } catch (error) {
    // whoever uses it says what is wrong
    if (error instanceof PatternProblem) return pattern
    throw error
  }
  const anywhere = alternatives.map(({ elements, raw }) => {
    const [first] = elements
    return first?.type === 'Assertion' && first.kind === 'start' ? raw : `[^]*${raw}`
  })
  return `^(?!${anywhere.join('|')})`
}

/** A pattern that all strings but these match. */
export function noneOf(texts: readonly string[]): string {
  return `^(?!(?:${texts.map((text) => escaped(text)).join('|')})$)`
}

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
