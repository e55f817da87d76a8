import type { AST } from '@eslint-community/regexpp'
import { parsePattern, PatternProblem } from './pattern/parse-pattern.js'

/** What can make a pattern match although the text that was added does not hold the pattern's end. */
const looksFurther = /\$|\\[bB]|\(\?=|\(\?<|\(\?![^)]*\(\?/

/**
 * The literal text with which every match of a pattern ends, a final `(?=…)` included: `<tool_call>`
 * of `^[^]*?<tool_call>`. Without it in the text that was added, a search that found nothing before
 * cannot succeed. Empty where the pattern has no such ending.
 */
export function triggerEnding(pattern: string): string {
  const elements = elementsOf(pattern)
  const last = elements.at(-1)
  const isLookahead = last?.type === 'Assertion' && last.kind === 'lookahead' && !last.negate
  const before = isLookahead ? pattern.slice(0, last.start) : pattern
  if (looksFurther.test(before)) return ''
  if (!isLookahead) return literalEnd(elements)
  const [inner, other] = last.alternatives
  if (inner === undefined || other !== undefined) return ''
  return inner.elements.every(isCharacter) ? literalEnd(inner.elements) : ''
}

function elementsOf(pattern: string): readonly AST.Element[] {
  try {
    const { alternatives } = parsePattern(pattern)
    return alternatives.length === 1 ? alternatives[0]!.elements : []
  } catch (error) {
    if (error instanceof PatternProblem) return [] // Valid without the flag u.
    throw error
  }
}

function literalEnd(elements: readonly AST.Element[]): string {
  let text = ''
  for (const element of elements.toReversed()) {
    if (!isCharacter(element)) break
    text = String.fromCodePoint(element.value) + text
  }
  return text
}

function isCharacter(element: AST.Element): element is AST.Character {
  return element.type === 'Character'
}
