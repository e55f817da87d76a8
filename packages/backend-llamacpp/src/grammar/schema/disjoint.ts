import { keepsTo } from './accepts.js'
import { type Facts, factsOf, type ValueType, valueTypes } from './facts.js'
import { alternativesOf } from './ways/schema-alternatives.js'
import type { Conjunction, Place, SchemaDocument } from './schema-document.js'

const deepest = 4

/** Whether no value can be valid by both; false where that is not known. */
export function areDisjoint(
  document: SchemaDocument,
  left: Conjunction,
  right: Conjunction,
  depth = 0,
): boolean {
  if (depth > deepest) return false
  const others = waysOf(document, right)
  return waysOf(document, left).every((facts) =>
    others.every((other) => exclude(document, facts, other, depth)),
  )
}

/** What is said in each way; each of n alternatives is compared with all others. */
const known = new WeakMap<Place, readonly Facts[]>()

function waysOf(document: SchemaDocument, all: Conjunction): readonly Facts[] {
  const [only] = all
  document.budget.spend(1, only?.pointer ?? '#')
  const before = all.length === 1 && only !== undefined ? known.get(only) : undefined
  if (before !== undefined) return before
  const ways = alternativesOf(document, all).map((way) => factsOf(document, way))
  if (all.length === 1 && only !== undefined) known.set(only, ways)
  return ways
}

function exclude(document: SchemaDocument, left: Facts, right: Facts, depth: number): boolean {
  document.budget.spend(1, left.places[0]?.pointer ?? '#')
  const listed = left.values === undefined ? [right, left] : [left, right]
  const [{ values } = left, other = right] = listed
  if (values !== undefined) {
    const own = listed[0] ?? left
    return [...values.values()].every(
      (one) => !keepsTo(document, own, one) || !keepsTo(document, other, one),
    )
  }
  const shared = typesOf(left).filter((type) => typesOf(right).includes(type))
  return shared.every((type) => {
    if (type === 'number') return isBelow(left, right) || isBelow(right, left)
    if (type === 'string') {
      return left.maxLength < right.minLength || right.maxLength < left.minLength
    }
    if (type === 'array') return left.maxItems < right.minItems || right.maxItems < left.minItems
    return type === 'object' && objectsExclude(document, left, right, depth)
  })
}

/**
 * Objects exclude each other by a property that one of them must have. One that names its properties
 * and says nothing of others has no others: as it is written.
 */
function objectsExclude(
  document: SchemaDocument,
  left: Facts,
  right: Facts,
  depth: number,
): boolean {
  return [...new Set([...left.required, ...right.required])].some((name) => {
    const mine = left.properties.get(name)
    const theirs = right.properties.get(name)
    if ((mine === undefined && left.isClosed) || (theirs === undefined && right.isClosed))
      return true
    return areDisjoint(document, mine ?? left.additional, theirs ?? right.additional, depth + 1)
  })
}

function typesOf({ types }: Facts): readonly ValueType[] {
  return types ?? valueTypes
}

function isBelow(left: Facts, right: Facts): boolean {
  const { maximum } = left
  const { minimum } = right
  if (maximum === undefined || minimum === undefined) return false
  if (maximum.value === minimum.value) return maximum.isExclusive || minimum.isExclusive
  return maximum.value < minimum.value
}
