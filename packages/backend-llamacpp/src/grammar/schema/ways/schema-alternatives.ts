import { CllmError } from '@cllm/core'
import { refusedSchema } from '../../refuse.js'
import { areDisjoint, areTold, missingName } from '../disjoint.js'
import { memberOf } from '../facts.js'
import { accepts } from '../is-valid.js'
import { lacking, negationsOf } from './negation.js'
import type { Conjunction, Place, SchemaDocument } from '../schema-document.js'
import type { SchemaObject } from '../schema-keywords.js'
import { withUnevaluated } from './unevaluated.js'

const mostAlternatives = 512
/** More ways are looked at for those that nothing can fulfil, as chains of `if` have many. */
const few = 8
/** On more properties the schemas are not told apart: all that is asked for is there. */
const mostDependent = 4

/**
 * Every way to fulfil all of these schemas at once: `$ref` and `allOf` add schemas to a way, `anyOf`,
 * `oneOf`, `if` and what depends on properties make several ways. What is left to be kept to in each is
 * the other keywords of the schemas in it. No way: nothing is valid.
 * @throws CllmError `invalid_constraint`
 */
export function alternativesOf(document: SchemaDocument, all: Conjunction): Conjunction[] {
  const values = valuesOf(document, all)
  if (values !== undefined) return values
  let ways: Conjunction[] = [[]]
  for (const place of all) ways = product(document, place, ways, waysOf(document, place, []))
  return ways
}

type Ways = readonly Conjunction[]

/** Where values are listed, those that all schemas allow are the one way. */
function valuesOf(document: SchemaDocument, all: Conjunction): Conjunction[] | undefined {
  const [first] = all
  if (first === undefined || (all.length === 1 && !isCombined(first))) return undefined
  const listed = all.find(({ schema }) => listOf(schema) !== undefined)
  if (listed === undefined) return undefined
  const kept = listOf(listed.schema)!.filter((value) => accepts(document, all, value))
  if (kept.length === 0) return []
  const key = `${first.pointer}^${all.map(({ pointer }) => pointer).join(' ')}`
  return [[document.place(key, { enum: kept })]]
}

const listOf = (schema: boolean | SchemaObject): readonly unknown[] | undefined =>
  typeof schema === 'boolean' ? undefined : schema.enum

const combining = ['allOf', 'anyOf', 'oneOf', 'not', 'if', '$ref', '$dynamicRef'] as const

const isCombined = ({ schema }: Place): boolean =>
  typeof schema !== 'boolean' && combining.some((keyword) => schema[keyword] !== undefined)

function waysOf(document: SchemaDocument, place: Place, trail: readonly string[]): Ways {
  const { schema } = place
  if (schema === true) return [[]]
  if (schema === false) return []
  const inner = goOn(document, place, trail, '')
  const child = (...path: readonly (string | number)[]): Ways =>
    waysOf(document, document.child(place, ...path), inner)
  let ways: Ways = [[place]]
  const and = (others: Ways): void => {
    const both = product(document, place, ways, others)
    ways = both.length > few ? both.filter((way) => isPossible(document, way)) : both
  }
  for (const referred of document.referred(place)) and(waysOf(document, referred, inner))
  for (const index of schema.allOf?.keys() ?? []) and(child('allOf', index))
  if (schema.anyOf !== undefined) {
    and([...schema.anyOf.keys()].flatMap((index) => child('anyOf', index)))
  }
  if (schema.oneOf !== undefined) and(oneWay(document, place, schema.oneOf.length, inner))
  if (schema.not !== undefined) and(notWays(document, place, 'not', inner))
  if (schema.if !== undefined) and(conditionalWays(document, place, schema, inner))
  for (const others of dependentWays(document, place, schema, inner)) and(others)
  return ways.map((way) => withUnevaluated(document, place, schema, way))
}

function goOn(
  { budget }: SchemaDocument,
  { pointer, size }: Place,
  trail: readonly string[],
  kind: '' | '^',
): readonly string[] {
  budget.spend(4 + trail.length + (pointer.length >> 6) + (size >> 3), pointer)
  if (trail.includes(pointer + kind)) {
    throw refusedSchema(pointer, '$ref leads back to where it started')
  }
  return [...trail, pointer + kind]
}

/** The ways not to fulfil a schema, or as many as are known. */
function negatedWays(document: SchemaDocument, place: Place, trail: readonly string[]): Ways {
  const { pointer, schema } = place
  if (schema === true) return []
  if (schema === false) return [[]]
  const inner = goOn(document, place, trail, '^')
  // each says of all elements before it that they are there
  const before = schema.prefixItems?.length ?? 0
  document.budget.spend(place.size + ((before * before) >> 1), pointer)
  const direct = negationsOf(schema).flatMap((made, index) =>
    waysOf(document, document.place(`${pointer}^${index}`, made), inner),
  )
  const referred = document.referred(place).flatMap((one) => negatedWays(document, one, inner))
  return [...direct, ...referred]
}

/** What a `not` or the other side of an `if` asks for. */
function notWays(
  document: SchemaDocument,
  place: Place,
  keyword: 'not' | 'if',
  trail: readonly string[],
): Ways {
  const unwanted = document.child(place, keyword)
  const ways = negatedWays(document, unwanted, trail)
  const isEmpty = unwanted.schema === true || Object.keys(unwanted.schema).length === 0
  if (ways.length > 0 || isEmpty || place.pointer.includes('^')) return ways
  throw refusedSchema(
    `${place.pointer}/${keyword}`,
    `the keyword ${keyword} is not supported with what is said here`,
  )
}

function conditionalWays(
  document: SchemaDocument,
  place: Place,
  schema: SchemaObject,
  trail: readonly string[],
): Ways {
  const side = (keyword: 'if' | 'then' | 'else'): Ways =>
    keyword !== 'if' && schema[keyword] === undefined
      ? [[]]
      : waysOf(document, document.child(place, keyword), trail)
  if (schema.then === undefined && schema.else === undefined) return [[]]
  return [
    ...possible(product(document, place, side('if'), side('then'))),
    ...possible(product(document, place, notWays(document, place, 'if', trail), side('else'))),
  ]
}

/** For each property on which something depends: without it, or with it and the rest. */
function dependentWays(
  document: SchemaDocument,
  place: Place,
  { dependentRequired = {}, dependentSchemas = {} }: SchemaObject,
  trail: readonly string[],
): readonly Ways[] {
  const { pointer } = place
  const none: Ways = [[]]
  const either = (name: string, required: readonly string[], then: Ways): Ways => {
    const made = (what: string, schema: unknown): Place =>
      document.place(`${pointer}^${what} ${name}`, schema)
    const without = made('without', { ...lacking(name), type: undefined })
    const keyword = then === none ? 'dependentRequired' : 'dependentSchemas'
    const present = made(keyword, { required: [name, ...required] })
    return [[without], ...product(document, place, [[present]], then)]
  }
  const asking = Object.entries(dependentRequired)
  const all = asking.flatMap(([, others]) => others)
  return [
    ...(asking.length > mostDependent
      ? [[[document.place(`${pointer}^all`, { required: all })]]]
      : asking.map(([name, others]) => either(name, others, none))),
    ...Object.keys(dependentSchemas).map((name) => {
      const inner = document.child(place, 'dependentSchemas', name)
      return either(name, [], [...waysOf(document, inner, trail)])
    }),
  ]
}

/** The ways to fulfil one of several alternatives and none of the others. */
function oneWay(
  document: SchemaDocument,
  place: Place,
  count: number,
  trail: readonly string[],
): Ways {
  const branches = Array.from({ length: count }, (_, index) =>
    document.child(place, 'oneOf', index),
  )
  const overlapping = overlapsOf(document, place, branches)
  const [overlap] = overlapping
  const own = (branch: Place): Ways => waysOf(document, branch, trail)
  if (overlap === undefined) return branches.flatMap((branch) => own(branch))
  try {
    const ways = branches.flatMap((branch, index) => {
      let some = own(branch)
      for (const pair of overlapping) {
        if (!pair.includes(index)) continue
        const other = branches[pair[0] === index ? pair[1] : pair[0]]!
        some = possible(product(document, place, some, without(document, branch, other, trail)))
      }
      return some
    })
    if (ways.length > 0) return ways
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
  }
  const [first, second] = overlap
  throw refusedSchema(
    `${place.pointer}/oneOf`,
    `the alternatives ${first} and ${second} may both be valid; use anyOf, or a required ` +
      'property that is const in each',
  )
}

/** The ways not to fulfil another alternative: without a property that it asks for, if there is one. */
function without(
  document: SchemaDocument,
  branch: Place,
  other: Place,
  trail: readonly string[],
): Ways {
  const name = missingName(document, [branch], [other])
  if (name === undefined) return negatedWays(document, other, trail)
  return [[document.place(`${other.pointer}^without ${name}`, lacking(name))]]
}

/** The pairs of alternatives that may both be valid. */
function overlapsOf(
  document: SchemaDocument,
  place: Place,
  branches: readonly Place[],
): (readonly [number, number])[] {
  // what is required beside the alternatives is so in each
  const { required } = place.schema as SchemaObject
  const beside: Conjunction =
    required === undefined ? [] : [document.place(`${place.pointer}^required`, { required })]
  const found: (readonly [number, number])[] = []
  const all = branches.map((branch) => [branch, ...beside])
  if (areTold(document, all)) return []
  for (const [second, right] of all.entries()) {
    for (const [first, left] of all.slice(0, second).entries()) {
      if (!areDisjoint(document, left, right)) {
        found.push([first, second])
      }
    }
  }
  return found
}

function product(
  { budget }: SchemaDocument,
  { pointer }: Place,
  left: Ways,
  right: Ways,
): Conjunction[] {
  if (left.length * right.length > mostAlternatives) {
    throw refusedSchema(pointer, `it has more than ${mostAlternatives} alternatives`)
  }
  const size = (ways: Ways) => ways.reduce((sum, way) => sum + way.length + 1, 0)
  budget.spend(size(left) * right.length + left.length * size(right), pointer)
  return left.flatMap((one) => right.map((other) => [...new Set([...one, ...other])]))
}

/** Without the ways whose schemas name types that exclude each other. */
const possible = (ways: Ways): Ways => ways.filter((way) => hasType(way))

function hasType(way: Conjunction): boolean {
  let left: readonly string[] | undefined
  for (const { schema } of way) {
    const { type } = schema as SchemaObject
    if (type === undefined) continue
    const named = type.flatMap((one) => (one === 'integer' ? ['integer', 'number'] : [one]))
    left = left === undefined ? named : left.filter((one) => named.includes(one))
  }
  return left === undefined || left.length > 0
}

/** Whether there may be values for all properties that must come. */
function isPossible(document: SchemaDocument, way: Conjunction): boolean {
  if (!hasType(way)) return false
  const required = new Set(way.flatMap(({ schema }) => (schema as SchemaObject).required ?? []))
  return [...required].every((name) => {
    const all = way.flatMap((place) => memberOf(document, place, name, []))
    if (all.some(({ schema }) => schema === false)) return false
    document.budget.spend(2 * way.length, way[0]!.pointer)
    const values = all.map(({ schema }) => listOf(schema)).find((list) => list !== undefined)
    return values === undefined || values.some((value) => accepts(document, all, value))
  })
}
