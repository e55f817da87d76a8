import type { AST } from '@eslint-community/regexpp'
import { characterRule, type GbnfWriter, maximumRepetitions } from '../gbnf/gbnf-writer.js'
import { charactersOf, type CodePointSet } from './characters.js'
import { withoutAnchors } from './nfa.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import { jsonRule } from '../rules/json-rules.js'
import type { Spend } from '../refuse.js'

/** How many characters a string may have. */
export interface Lengths {
  readonly min: number
  readonly max: number
}

/** A part of a pattern as GBNF, with the lengths of what it matches. */
interface Part extends Lengths {
  readonly text: string
}

/** Where the parts of a pattern are written. */
interface Target {
  readonly writer: GbnfWriter
  readonly spend: Spend
}

const deepest = 50

/**
 * The inside of the JSON strings that match a pattern and have such a length, as GBNF. As JSON schema
 * says, a pattern matches anywhere in a string unless it has anchors.
 * @throws PatternProblem
 */
export function patternRule(
  writer: GbnfWriter,
  pattern: string,
  lengths: Lengths,
  spend: Spend,
): string {
  const { alternatives } = parsePattern(pattern, spend)
  const texts = alternatives.map((alternative) => {
    const { elements, starts, ends } = withoutAnchors(alternative.elements)
    const part = fit({ writer, spend }, elements, starts && ends, lengths)
    const free = jsonRule(writer, 'char')
    return [starts ? '' : `${free}*`, part.text, ends ? '' : `${free}*`].join(' ').trim()
  })
  return texts.length === 1 ? (texts[0] ?? '') : `(${texts.join(' | ')})`
}

/** Keeps to the length as well, where the pattern does by itself or repeats a single character. */
function fit(
  target: Target,
  elements: readonly AST.Element[],
  isAnchored: boolean,
  lengths: Lengths,
): Part {
  const [only] = elements
  if (isAnchored && elements.length === 1 && only?.type === 'Quantifier') {
    const set = charactersOf(only.element, target.spend)
    const min = Math.max(only.min, lengths.min)
    const max = Math.min(only.max, lengths.max)
    if (set !== undefined) return repeated(target.writer, character(set, target.spend), min, max)
  }
  const part = sequence(target, elements, 0)
  const max = isAnchored ? part.max : Infinity
  if (part.min >= lengths.min && max <= lengths.max) return part
  throw new PatternProblem('together with this minLength or maxLength it is not supported')
}

function convert(target: Target, element: AST.Element, depth: number): Part {
  if (depth > deepest) throw new PatternProblem(`it is nested deeper than ${deepest} levels`)
  const { writer, spend } = target
  const set = charactersOf(element, spend)
  if (set !== undefined) return character(set, spend)
  switch (element.type) {
    case 'Group':
    case 'CapturingGroup': {
      if (element.type === 'Group' && element.modifiers) break
      const parts = element.alternatives.map(({ elements }) =>
        sequence(target, elements, depth + 1),
      )
      return {
        text: `(${parts.map(({ text }) => text).join(' | ')})`,
        min: Math.min(...parts.map(({ min }) => min)),
        max: Math.max(...parts.map(({ max }) => max)),
      }
    }
    case 'Quantifier': {
      const part = convert(target, element.element, depth + 1)
      if (part.min === 0 && element.max === Infinity) {
        throw new PatternProblem(`${element.raw} repeats without end what may be empty`)
      }
      return repeated(writer, part, element.min, element.max)
    }
    default:
  }
  throw new PatternProblem(`${element.raw} is not supported`)
}

function sequence(target: Target, elements: readonly AST.Element[], depth: number): Part {
  const parts = elements.map((element) => convert(target, element, depth))
  // each group copies what it holds
  target.spend(parts.reduce((sum, { text }) => sum + (text.length >> 4), 1))
  return {
    text: parts.length === 0 ? '""' : parts.map(({ text }) => text).join(' '),
    min: parts.reduce((sum, { min }) => sum + min, 0),
    max: parts.reduce((sum, { max }) => sum + max, 0),
  }
}

function character(set: CodePointSet, spend: Spend): Part {
  spend(2 * set.length)
  const text = characterRule(set)
  if (text === undefined) throw new PatternProblem('a character of it cannot be written in JSON')
  return { text, min: 1, max: 1 }
}

function repeated(writer: GbnfWriter, part: Part, min: number, max: number): Part {
  if (min > max) throw new PatternProblem('no string of the wanted length matches')
  if (min > maximumRepetitions || (max !== Infinity && max > maximumRepetitions)) {
    throw new PatternProblem(`it repeats more than ${maximumRepetitions} times`)
  }
  const text = max === 0 ? '""' : writer.repeat(writer.rule(part.text), min, max)
  return { text, min: min * part.min, max: max === 0 ? 0 : max * part.max }
}
