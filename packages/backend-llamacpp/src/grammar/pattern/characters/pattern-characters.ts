import type { AST } from '@eslint-community/regexpp'
import type { CodePointRange } from '../../gbnf/gbnf-writer.js'
import { type CodePointSet, complement, union } from './code-point-set.js'
import { propertyCharacters } from './property-characters.js'
import type { Spend } from '../../schema/schema-budget.js'

const digits: CodePointSet = [[0x30, 0x39]]
/** `\w`. */
export const wordCharacters = union([...digits, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]])
const lineEnds = union([
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
])
/** `\s`. */
export const spaces = union([
  ...lineEnds,
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
])

type Element =
  | AST.Character
  | AST.CharacterSet
  | AST.CharacterClass
  | AST.ClassRangesCharacterClassElement

/** Elements that are repeated are asked for each time. */
const known = new WeakMap<Element, CodePointSet | undefined>()

/** What one character of a regular expression may be; undefined when that is not known here. */
export function charactersOf(element: Element, spend: Spend): CodePointSet | undefined {
  if (known.has(element)) return known.get(element)
  const set = find(element, spend)
  known.set(element, set)
  return set
}

function find(element: Element, spend: Spend): CodePointSet | undefined {
  switch (element.type) {
    case 'Character':
      return [[element.value, element.value]]
    case 'CharacterClassRange':
      return [[element.min.value, element.max.value]]
    case 'CharacterSet':
      return setOf(element, spend)
    case 'CharacterClass': {
      const ranges: CodePointRange[] = []
      for (const part of element.elements) {
        if (!isKnown(part)) return undefined
        const set = find(part, spend)
        if (set === undefined) return undefined
        spend(2 * set.length)
        ranges.push(...set)
      }
      return element.negate ? complement(union(ranges)) : union(ranges)
    }
  }
}

function isKnown(part: AST.CharacterClassElement): part is AST.ClassRangesCharacterClassElement {
  return ['Character', 'CharacterClassRange', 'CharacterSet'].includes(part.type)
}

function setOf(set: AST.CharacterSet, spend: Spend): CodePointSet | undefined {
  switch (set.kind) {
    case 'any':
      return complement(lineEnds)
    case 'digit':
      return set.negate ? complement(digits) : digits
    case 'word':
      return set.negate ? complement(wordCharacters) : wordCharacters
    case 'space':
      return set.negate ? complement(spaces) : spaces
    case 'property':
      return propertyCharacters(set.raw, spend)
  }
}
