import { entryOf } from '@cllm/core/defined'
import type { AST } from '@eslint-community/regexpp'
import { LRUCache } from 'lru-cache'
import type { Spend } from '../refuse.js'
import {
  type CodePointSet,
  type CodePointRange,
  union,
  complement,
  digits,
  wordCharacters,
  lineEnds,
  spaces,
} from './code-point-set.js'

type Element = AST.Element | AST.CharacterClassElement

/** The characters of elements; a repeated element is looked up each time. */
const known = new WeakMap<Element, CodePointSet | undefined>()

/** The characters that an element matches; undefined if it does not match exactly one, or is not supported here. */
export function charactersOf(element: Element, spend: Spend): CodePointSet | undefined {
  return entryOf(known, element, () => find(element, spend))
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
        const set = find(part, spend)
        if (set === undefined) return undefined
        spend(2 * set.length)
        ranges.push(...set)
      }
      return element.negate ? complement(union(ranges)) : union(ranges)
    }
    default:
      return undefined
  }
}

function setOf(set: AST.CharacterSet, spend: Spend): CodePointSet | undefined {
  if (set.kind === 'any') return complement(lineEnds)
  if (set.kind === 'property') return propertyCharacters(set.raw, spend)
  const named = { digit: digits, word: wordCharacters, space: spaces }[set.kind]
  return set.negate ? complement(named) : named
}

const planeSize = 0x10000
/** The planes in which characters differ; all others are unassigned or private as a whole. */
const mixed = [0, 1, 2, 3, 14]
const plain = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16]
/** The last two code points of each plane are no characters. */
const tail = 2
/** Steps to find the characters of a property: about 5 ms. */
const findSteps = 12_000

/** A cache with a limit, as there are over a thousand spellings of properties. */
const knownProperties = new LRUCache<string, CodePointSet>({ max: 100 })
/** All characters of the mixed planes, by plane. */
const texts = new Map<number, string>()

/**
 * The characters with a Unicode property, found by JavaScript's regular expressions. Halves of surrogate pairs, which
 * no text contains, may be missing.
 * @param raw - the property as written in a pattern, such as `\p{L}`
 */
function propertyCharacters(raw: string, spend: Spend): CodePointSet {
  return entryOf<string, CodePointSet>(knownProperties, raw, () => {
    spend(findSteps)
    return union([
      ...mixed.flatMap((plane) => runsOf(raw, plane)),
      ...plain.flatMap((plane) => edgesOf(raw, plane * planeSize)),
    ])
  })
}

function runsOf(raw: string, plane: number): CodePointSet {
  const text = entryOf(texts, plane, () => textOf(plane))
  return [...text.matchAll(new RegExp(`${raw}+`, 'gu'))].flatMap(([run]) => {
    const first = run.codePointAt(0)!
    const last = run.codePointAt(run.length - (first > 0xffff ? 2 : 1))!
    if (first > 0xd7ff || last < 0xe000) return [[first, last] as const]
    return [[first, 0xd7ff] as const, [0xe000, last] as const]
  })
}

function textOf(plane: number): string {
  const start = plane * planeSize
  const codes: number[] = []
  for (let code = start; code < start + planeSize; code++) {
    if (code < 0xd800 || code > 0xdfff) codes.push(code)
  }
  const parts: string[] = []
  for (let at = 0; at < codes.length; at += 4096) {
    parts.push(String.fromCodePoint(...codes.slice(at, at + 4096)))
  }
  return parts.join('')
}

function edgesOf(raw: string, start: number): CodePointSet {
  const one = new RegExp(raw, 'u')
  const end = start + planeSize - 1
  const parts = [[start, end - tail] as const, [end - tail + 1, end] as const]
  return parts.filter(([first]) => one.test(String.fromCodePoint(first)))
}
