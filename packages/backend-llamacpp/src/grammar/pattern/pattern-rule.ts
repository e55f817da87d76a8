import type { AST } from '@eslint-community/regexpp'
import { characterRule, type GbnfWriter, maximumRepetitions } from '../gbnf/gbnf-writer.js'
import type { Amount } from '../gbnf/gbnf-reader.js'
import type { CodePointSet } from './code-point-set.js'
import { charactersOf } from './pattern-characters.js'
import { withoutAnchors } from './nfa.js'
import { parsePattern, PatternProblem } from './parse-pattern.js'
import { jsonRule } from '../rules/json-rules.js'
import type { Spend } from '../refuse.js'

/** A part of a pattern as GBNF, with the least and the greatest length of the texts that it matches. */
interface Part extends Amount {
  readonly text: string
}

const deepest = 50

/**
 * The content of the JSON strings that match a pattern and have a length within `lengths`, as GBNF. As in JSON schema,
 * a pattern matches anywhere in a string unless it has anchors.
 * @throws PatternProblem
 */
export function patternRule(
  writer: GbnfWriter,
  pattern: string,
  lengths: Amount,
  spend: Spend,
): string {
  const parts = new PatternParts(writer, spend)
  const texts = parsePattern(pattern, spend).alternatives.map((alternative) => {
    const { elements, starts, ends } = withoutAnchors(alternative.elements)
    const { text } = parts.fit(elements, starts && ends, lengths)
    const free = jsonRule(writer, 'char')
    return [starts ? '' : `${free}*`, text, ends ? '' : `${free}*`].join(' ').trim()
  })
  return texts.length === 1 ? (texts[0] ?? '') : `(${texts.join(' | ')})`
}

/** Writes the parts of a pattern. */
class PatternParts {
  constructor(
    private readonly writer: GbnfWriter,
    private readonly spend: Spend,
  ) {}

  /**
   * Writes a pattern that also keeps to the lengths, which is possible if it does so by itself, or repeats a single
   * character.
   */
  fit(elements: readonly AST.Element[], isAnchored: boolean, lengths: Amount): Part {
    const [only] = elements
    if (isAnchored && elements.length === 1 && only?.type === 'Quantifier') {
      const set = charactersOf(only.element, this.spend)
      const min = Math.max(only.min, lengths.min)
      const max = Math.min(only.max, lengths.max)
      if (set !== undefined) return this.#repeated(this.#character(set), min, max)
    }
    const part = this.#sequence(elements, 0)
    const max = isAnchored ? part.max : Infinity
    if (part.min >= lengths.min && max <= lengths.max) return part
    throw new PatternProblem('together with this minLength or maxLength it is not supported')
  }

  #convert(element: AST.Element, depth: number): Part {
    if (depth > deepest) throw new PatternProblem(`it is nested deeper than ${deepest} levels`)
    const set = charactersOf(element, this.spend)
    if (set !== undefined) return this.#character(set)
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup': {
        if (element.type === 'Group' && element.modifiers) break
        const ways = element.alternatives.map((way) => this.#sequence(way.elements, depth + 1))
        return {
          text: `(${ways.map(({ text }) => text).join(' | ')})`,
          min: Math.min(...ways.map(({ min }) => min)),
          max: Math.max(...ways.map(({ max }) => max)),
        }
      }
      case 'Quantifier': {
        const part = this.#convert(element.element, depth + 1)
        if (part.min === 0 && element.max === Infinity) {
          throw new PatternProblem(`${element.raw} repeats without end what may be empty`)
        }
        return this.#repeated(part, element.min, element.max)
      }
      default:
    }
    throw new PatternProblem(`${element.raw} is not supported`)
  }

  #sequence(elements: readonly AST.Element[], depth: number): Part {
    const parts = elements.map((element) => this.#convert(element, depth))
    // each group copies what it holds
    this.spend(parts.reduce((sum, { text }) => sum + (text.length >> 4), 1))
    return {
      text: parts.length === 0 ? '""' : parts.map(({ text }) => text).join(' '),
      min: parts.reduce((sum, { min }) => sum + min, 0),
      max: parts.reduce((sum, { max }) => sum + max, 0),
    }
  }

  #character(set: CodePointSet): Part {
    this.spend(2 * set.length)
    const text = characterRule(set)
    if (text === undefined) throw new PatternProblem('a character of it cannot be written in JSON')
    return { text, min: 1, max: 1 }
  }

  #repeated(part: Part, min: number, max: number): Part {
    if (min > max) throw new PatternProblem('no string of the wanted length matches')
    if (min > maximumRepetitions) {
      throw new PatternProblem(`it repeats more than ${maximumRepetitions} times`)
    }
    const text = max === 0 ? '""' : this.writer.repeat(this.writer.rule(part.text), min, max)
    return { text, min: min * part.min, max: max === 0 ? 0 : max * part.max }
  }
}
