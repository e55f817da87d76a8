import { parsePattern, PatternProblem } from './parse-pattern.js'

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

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
}
