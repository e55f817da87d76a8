import { type AST, RegExpParser } from '@eslint-community/regexpp'
import type { Spend } from '../schema/schema-budget.js'

/** Why a pattern cannot be kept to. */
export class PatternProblem extends Error {}

/** The parser compares each back reference with each group. */
const mostCharacters = 20_000
const parser = new RegExpParser({ ecmaVersion: 2024 })

/**
 * The parts of a regular expression.
 * @throws PatternProblem when it is none, or has more than 20,000 characters
 */
export function parsePattern(pattern: string, spend?: Spend): AST.Pattern {
  if (pattern.length > mostCharacters) {
    throw new PatternProblem(`it has more than ${mostCharacters} characters`)
  }
  spend?.(pattern.length)
  try {
    return parser.parsePattern(pattern, 0, pattern.length, { unicode: true })
  } catch (error) {
    if (error instanceof RangeError) throw new PatternProblem('it is nested too deeply')
    throw new PatternProblem(error instanceof Error ? error.message : String(error))
  }
}
