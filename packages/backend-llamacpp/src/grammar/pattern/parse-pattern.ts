import { attempt, messageOf } from '@cllm/core'
import { type AST, RegExpParser } from '@eslint-community/regexpp'
import { refusedSchema, type Spend } from '../refuse.js'

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
/** What means one thing or another where more than Unicode's escapes are allowed, as in `\d\:\d`. */
const isAmbiguous = /\\(?![dDwWsSbBfnrtvxu_\W])|\\u\{|\{,\d|[^\0-\uffff]/u

/**
 * The parts of a regular expression.
 * @throws PatternProblem when it is none, or has more than 20,000 characters
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
