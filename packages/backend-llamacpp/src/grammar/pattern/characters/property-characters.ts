import { LRUCache } from 'lru-cache'
import { type CodePointSet, union } from './code-point-set.js'
import type { Spend } from '../../schema/schema-budget.js'

const planeSize = 0x10000
/** The planes in which characters differ; all others are unassigned or private as a whole. */
const mixed = [0, 1, 2, 3, 14]
const plain = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16]
/** The last two of each plane are no characters. */
const tail = 2
/** Steps to find the characters of a property: some 5 ms. */
const findSteps = 12_000

/** A property has over a thousand spellings, as scripts have several names. */
const known = new LRUCache<string, CodePointSet>({ max: 100 })
/** All characters of the mixed planes, by plane. */
const texts = new Map<number, string>()

/**
 * The characters with a property of Unicode's, found by the regular expressions that know them. Halves of
 * surrogate pairs, which are in no text, may be missing.
 * @param raw - as `\p{L}`
 */
export function propertyCharacters(raw: string, spend: Spend): CodePointSet {
  const before = known.get(raw)
  if (before !== undefined) return before
  spend(findSteps)
  const found = union([
    ...mixed.flatMap((plane) => runsOf(raw, plane)),
    ...plain.flatMap((plane) => edgesOf(raw, plane * planeSize)),
  ])
  known.set(raw, found)
  return found
}

function runsOf(raw: string, plane: number): readonly (readonly [number, number])[] {
  return [...textOf(plane).matchAll(new RegExp(`${raw}+`, 'gu'))].flatMap(([run]) => {
    const first = run.codePointAt(0)!
    const last = run.codePointAt(run.length - (first > 0xffff ? 2 : 1))!
    if (first > 0xd7ff || last < 0xe000) return [[first, last] as const]
    return [[first, 0xd7ff] as const, [0xe000, last] as const]
  })
}

function textOf(plane: number): string {
  const before = texts.get(plane)
  if (before !== undefined) return before
  const start = plane * planeSize
  const codes: number[] = []
  for (let code = start; code < start + planeSize; code++) {
    if (code < 0xd800 || code > 0xdfff) codes.push(code)
  }
  const parts: string[] = []
  for (let at = 0; at < codes.length; at += 4096) {
    parts.push(String.fromCodePoint(...codes.slice(at, at + 4096)))
  }
  const text = parts.join('')
  texts.set(plane, text)
  return text
}

function edgesOf(raw: string, start: number): readonly (readonly [number, number])[] {
  const one = new RegExp(raw, 'u')
  const end = start + planeSize - 1
  const parts = [[start, end - tail] as const, [end - tail + 1, end] as const]
  return parts.filter(([first]) => one.test(String.fromCodePoint(first)))
}
