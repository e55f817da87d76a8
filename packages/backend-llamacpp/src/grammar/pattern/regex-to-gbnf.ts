import { GbnfWriter, oneOf } from '../gbnf/gbnf-writer.js'
import { refused } from '../refuse.js'
import { SchemaBudget } from '../schema/schema-budget.js'
import { automatonRule } from './automaton-rule.js'
import { PatternProblem } from './parse-pattern.js'

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
    const reason = error.message
    throw refused(`The regular expression cannot be kept to: ${reason}`, { reason })
  }
}
