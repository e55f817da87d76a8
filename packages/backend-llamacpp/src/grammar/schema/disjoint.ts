import { type Facts, memberOf, valueTypes, waysOf } from './facts.js'
import { accepts } from './is-valid.js'
import type { Conjunction } from './schema-document.js'

const deepest = 4

/** Whether no value can be valid by both; false if that is unknown. */
export function areDisjoint(left: Conjunction, right: Conjunction, depth = 0): boolean {
  if (depth > deepest) return false
  const others = waysOf(right)
  return waysOf(left).every((facts) => others.every((other) => exclude(facts, other, depth)))
}

function exclude(left: Facts, right: Facts, depth: number): boolean {
  const both = [...left.places, ...right.places]
  both[0]?.spend(1)
  const values = left.values ?? right.values
  if (values !== undefined) return [...values.values()].every((one) => !accepts(both, one))
  const { types: mine = valueTypes } = left
  const shared = mine.filter((type) => right.types?.includes(type) !== false)
  return shared.every((type) => {
    if (type === 'number') return isBelow(left, right) || isBelow(right, left)
    if (type === 'string') {
      return left.maxLength < right.minLength || right.maxLength < left.minLength
    }
    if (type === 'array') return left.maxItems < right.minItems || right.maxItems < left.minItems
    return type === 'object' && objectsExclude(left, right, depth)
  })
}

/** Whether objects exclude each other, by a property that is required in one of them. */
function objectsExclude(left: Facts, right: Facts, depth: number): boolean {
  const members = ({ properties, places }: Facts, name: string): Conjunction =>
    properties.get(name) ??
    places.flatMap((place) => memberOf(place, name, ['additionalProperties']))
  const tells = (name: string): boolean =>
    areDisjoint(members(left, name), members(right, name), depth + 1)
  return [...new Set([...left.required, ...right.required])].some(tells)
}

/** Whether a required property has different values in all of the schemas: faster than comparing all pairs. */
export function areTold(all: readonly Conjunction[]): boolean {
  const ways = all.map(waysOf)
  const [first] = ways.flat()
  if (first === undefined || !ways.flat().every(({ types }) => types?.join() === 'object')) {
    return false
  }
  return [...first.required].some((name) => {
    const seen = new Set<string>()
    return ways.every((some) => {
      const lists = some.map((facts) => valuesOf(facts, name))
      const own = lists.flatMap((list) => list ?? [])
      if (lists.includes(undefined) || own.some((text) => seen.has(text))) return false
      some[0]?.places[0]?.spend(own.length >> 1)
      for (const text of own) seen.add(text)
      return true
    })
  })
}

/** The only values of a required property, as texts; undefined if it may be missing or have other values. */
function valuesOf({ required, properties }: Facts, name: string): readonly string[] | undefined {
  const named = properties.get(name)
  if (named === undefined || !required.has(name)) return undefined
  const lists = waysOf(named).map(({ values }) => values && [...values.keys()])
  return lists.every((list) => list !== undefined) ? lists.flat() : undefined
}

/**
 * A property that `right` requires in all its objects and that `left` does not name: objects of `left` without it are
 * not valid by `right`.
 */
export function missingName(left: Conjunction, right: Conjunction): string | undefined {
  const others = waysOf(left)
  const [first, ...rest] = waysOf(right)
  const areObjects = others.every(({ types }) => types === undefined || types.join() === 'object')
  if (!areObjects || first === undefined) return undefined
  return [...first.required].find(
    (name) =>
      rest.every(({ required }) => required.has(name)) &&
      others.every(({ properties }) => !properties.has(name)),
  )
}

function isBelow({ maximum }: Facts, { minimum }: Facts): boolean {
  if (maximum === undefined || minimum === undefined) return false
  if (maximum.value === minimum.value) return maximum.isExclusive || minimum.isExclusive
  return maximum.value < minimum.value
}
