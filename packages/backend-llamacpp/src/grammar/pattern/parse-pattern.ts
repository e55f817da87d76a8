import { messageOf } from '@cllm/core'
import { type AST, RegExpParser } from '@eslint-community/regexpp'
import { refusedSchema } from '../refuse.js'
import type { Spend } from '../schema/schema-budget.js'

/** Why a pattern cannot be kept to. */
export class PatternProblem extends Error {}

/** What work on a pattern gives, or what is made of the {@link PatternProblem} that ends it. */
export function unlessProblem<T>(work: () => T, otherwise: (problem: PatternProblem) => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof PatternProblem) return otherwise(error)
    throw error
  }
}

/** What work on a pattern of a schema gives; where it has a problem, the schema is refused. */
export const orRefused = <T>(pointer: string, work: () => T): T =>
  unlessProblem(work, ({ message }) => {
    throw refusedSchema(pointer, message)
  })

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
    throw new PatternProblem(messageOf(error))
  }
}
