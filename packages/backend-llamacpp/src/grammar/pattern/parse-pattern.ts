import { attempt, messageOf } from '@cllm/core/errors'
import { type AST, RegExpParser } from '@eslint-community/regexpp'
import { refusedSchema, type Spend } from '../refuse.js'

/** The reason why a pattern is not supported. */
export class PatternProblem extends Error {}

/** The result of work on a pattern, or of `otherwise` if a {@link PatternProblem} ends the work. */
export function unlessProblem<T>(work: () => T, otherwise: (problem: PatternProblem) => T): T {
  try {
    return work()
  } catch (error) {
    if (error instanceof PatternProblem) return otherwise(error)
    throw error
  }
}

/** The result of work on a schema's pattern; refuses the schema if there is a {@link PatternProblem}. */
export const orRefused = <T>(pointer: string, work: () => T): T =>
  unlessProblem(work, ({ message }) => {
    throw refusedSchema(pointer, message)
  })

/** A limit, as the parser compares each back reference with each group. */
const mostCharacters = 20_000
const parser = new RegExpParser({ ecmaVersion: 2024 })
/** Constructs that mean something else without the flag u, which allows more escapes, as in `\d\:\d`. */
const isAmbiguous = /\\(?![dDwWsSbBfnrtvxu_\W])|\\u\{|\{,\d|[^\0-\uffff]/u

/**
 * Parses a regular expression.
 * @throws PatternProblem if it is not valid, or has more than 20,000 characters
 */
export function parsePattern(pattern: string, spend?: Spend): AST.Pattern {
  if (pattern.length > mostCharacters) {
    throw new PatternProblem(`it has more than ${mostCharacters} characters`)
  }
  spend?.(pattern.length)
  const read = (unicode: boolean) => parser.parsePattern(pattern, 0, pattern.length, { unicode })
  try {
    return read(true)
  } catch (error) {
    if (error instanceof RangeError) throw new PatternProblem('it is nested too deeply')
    const loose = isAmbiguous.test(pattern) ? undefined : attempt(() => read(false))
    if (loose !== undefined) return loose
    throw new PatternProblem(messageOf(error))
  }
}

/** The negation of a pattern: a pattern that matches all other strings, by look-ahead from the beginning. */
export function notPattern(pattern: string): string {
  const make = () => {
    const anywhere = parsePattern(pattern).alternatives.map(({ elements: [first], raw }) =>
      first?.type === 'Assertion' && first.kind === 'start' ? raw : `[^]*${raw}`,
    )
    return `^(?!${anywhere.join('|')})`
  }
  // an invalid pattern is kept, so that its use reports the problem
  return unlessProblem(make, () => pattern)
}

/** A pattern that matches all strings except these. */
export function noneOf(texts: readonly string[]): string {
  return `^(?!(?:${texts.map((text) => escaped(text)).join('|')})$)`
}

const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
