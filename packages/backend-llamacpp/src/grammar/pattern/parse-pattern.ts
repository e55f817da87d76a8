import { type AST, RegExpParser } from '@eslint-community/regexpp'

/** Why a pattern cannot be kept to. */
export class PatternProblem extends Error {}

const parser = new RegExpParser({ ecmaVersion: 2024 })

/**
 * The parts of a regular expression.
 * @throws PatternProblem when it is none
 */
export function parsePattern(pattern: string): AST.Pattern {
  try {
    return parser.parsePattern(pattern, 0, pattern.length, { unicode: true })
  } catch (error) {
    if (error instanceof RangeError) throw new PatternProblem('it is nested too deeply')
    throw new PatternProblem(error instanceof Error ? error.message : String(error))
  }
}
