import { type GbnfWriter, grammarText, oneOf } from '../gbnf/gbnf-writer.js'
import { automatonRule } from './automaton-rule.js'
import { parsePattern, PatternProblem, unlessProblem } from './parse-pattern.js'
import { refused } from '../refuse.js'
import { SchemaBudget } from '../schema/schema-budget.js'

/**
 * A grammar whose texts a regular expression matches as a whole.
 * @throws CllmError `invalid_constraint` for what no automaton can follow
 */
export function regexGbnf(pattern: string): string {
  return grammarText((writer) => regexRule(writer, pattern))
}

/**
 * The texts that a regular expression matches as a whole, as a part of a grammar.
 * @throws CllmError `invalid_constraint` for what no automaton can follow
 */
export function regexRule(writer: GbnfWriter, pattern: string): string {
  const make = () => {
    const rule = automatonRule(writer, [`^(?:${pattern})$`], {
      lengths: { min: 0, max: Infinity },
      write: (set) => (set.length === 0 ? undefined : oneOf(set)),
      spend: new SchemaBudget().at('#'),
    })
    if (rule === undefined) throw new PatternProblem('no text matches it')
    return rule
  }
  return unlessProblem(make, ({ message }) => {
    throw refused('The regular expression cannot be kept to', message)
  })
}

/** A pattern that the strings match that a pattern does not match: by look-ahead from the beginning. */
export function notPattern(pattern: string): string {
  const make = () => {
    const anywhere = parsePattern(pattern).alternatives.map(({ elements: [first], raw }) =>
      first?.type === 'Assertion' && first.kind === 'start' ? raw : `[^]*${raw}`,
    )
    return `^(?!${anywhere.join('|')})`
  }
  // whoever uses it says what is wrong
  return unlessProblem(make, () => pattern)
}

/** A pattern that all strings but these match. */
export function noneOf(texts: readonly string[]): string {
  return `^(?!(?:${texts.map((text) => escaped(text)).join('|')})$)`
}

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
