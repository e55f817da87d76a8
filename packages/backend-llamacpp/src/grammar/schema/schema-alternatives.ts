import { CllmError } from '@cllm/core/errors'
import { refusedSchema } from '../refuse.js'
import { areDisjoint, areTold, missingName } from './disjoint.js'
import { memberOf, typesOf } from './facts.js'
import { accepts } from './is-valid.js'
import { lacking, negationsOf, withUnevaluated } from './implied-schemas.js'
import type { Conjunction, Place } from './schema-document.js'
import type { SchemaObject } from './schema-keywords.js'

const mostAlternatives = 512
/** If there are more ways than this, those that no value can fulfil are removed, as chains of `if` have many. */
const few = 8
/** If more properties than this have `dependentRequired`, all properties that they require are always written. */
const mostDependent = 4

type Ways = readonly Conjunction[]

/**
 * All ways to fulfil these schemas at once: `$ref` and `allOf` add schemas to a way; `anyOf`, `oneOf`, `if` and the
 * `dependent…` keywords make several ways. In each way only the other keywords of its schemas remain to be fulfilled.
 * If there is no way, no value is valid.
 * @throws CllmError `invalid_constraint`
 */
export function alternativesOf(all: Conjunction): Conjunction[] {
  const listed = valuesOf(all)
  if (listed !== undefined) return listed
  let ways: Conjunction[] = [[]]
  for (const place of all) ways = product(place, ways, waysOf(place, []))
  return ways
}

/** If a schema lists values, the only way: the listed values that all schemas allow. */
function valuesOf(all: Conjunction): Conjunction[] | undefined {
  const [first] = all
  if (first === undefined || (all.length === 1 && !isCombined(first))) return undefined
  const listed = all.find(({ schema }) => listOf(schema) !== undefined)
  if (listed === undefined) return undefined
  const kept = listOf(listed.schema)!.filter((value) => accepts(all, value))
  if (kept.length === 0) return []
  return [[first.implied(all.map(({ pointer }) => pointer).join(' '), { enum: kept })]]
}

const listOf = (schema: boolean | SchemaObject): readonly unknown[] | undefined =>
  typeof schema === 'boolean' ? undefined : schema.enum

const combining = ['allOf', 'anyOf', 'oneOf', 'not', 'if', '$ref', '$dynamicRef'] as const

const isCombined = ({ schema }: Place): boolean =>
  typeof schema !== 'boolean' && combining.some((keyword) => schema[keyword] !== undefined)

/** The ways to fulfil a schema, which was reached by these pointers. */
function waysOf(place: Place, trail: readonly string[]): Ways {
  const { schema } = place
  if (schema === true) return [[]]
  if (schema === false) return []
  const inner = goOn(place, trail, '')
  const child = (...path: readonly (string | number)[]): Ways => waysOf(place.child(...path), inner)
  let ways: Ways = [[place]]
  const and = (others: Ways): void => {
    const both = product(place, ways, others)
    ways = both.length > few ? both.filter((way) => isPossible(way)) : both
  }
  for (const referred of place.referred) and(waysOf(referred, inner))
  for (const index of schema.allOf?.keys() ?? []) and(child('allOf', index))
  if (schema.anyOf !== undefined) {
    and([...schema.anyOf.keys()].flatMap((index) => child('anyOf', index)))
  }
  if (schema.oneOf !== undefined) and(oneWay(place, schema.oneOf.length, inner))
  if (schema.not !== undefined) and(not(place, 'not', inner))
  if (schema.if !== undefined) and(conditional(place, schema, inner))
  for (const others of dependent(place, schema, inner)) and(others)
  return ways.map((way) => withUnevaluated(place, way))
}

function goOn(place: Place, trail: readonly string[], kind: '' | '^'): readonly string[] {
  const { pointer, size } = place
  place.spend(4 + trail.length + (pointer.length >> 6) + (size >> 3))
  if (trail.includes(pointer + kind)) {
    throw refusedSchema(pointer, '$ref leads back to where it started')
  }
  return [...trail, pointer + kind]
}

/** The known ways not to fulfil a schema. */
function negated(place: Place, trail: readonly string[]): Ways {
  const { schema } = place
  if (schema === true) return []
  if (schema === false) return [[]]
  const inner = goOn(place, trail, '^')
  // the negation of each element repeats all elements before it
  const before = schema.prefixItems?.length ?? 0
  place.spend(place.size + ((before * before) >> 1))
  const direct = negationsOf(schema).flatMap((made, index) =>
    waysOf(place.implied(index, made), inner),
  )
  const referred = place.referred.flatMap((one) => negated(one, inner))
  return [...direct, ...referred]
}

/** The ways to fulfil a `not`, or not to fulfil the condition of an `if`. */
function not(place: Place, keyword: 'not' | 'if', trail: readonly string[]): Ways {
  const unwanted = place.child(keyword)
  const ways = negated(unwanted, trail)
  const isEmpty = unwanted.schema === true || Object.keys(unwanted.schema).length === 0
  if (ways.length > 0 || isEmpty || place.isImplied) return ways
  throw refusedSchema(
    `${place.pointer}/${keyword}`,
    `the keyword ${keyword} is not supported with what is said here`,
  )
}

function conditional(place: Place, schema: SchemaObject, trail: readonly string[]): Ways {
  const side = (keyword: 'if' | 'then' | 'else'): Ways =>
    keyword !== 'if' && schema[keyword] === undefined ? [[]] : waysOf(place.child(keyword), trail)
  if (schema.then === undefined && schema.else === undefined) return [[]]
  return [
    ...possible(product(place, side('if'), side('then'))),
    ...possible(product(place, not(place, 'if', trail), side('else'))),
  ]
}

/** For each property with a `dependent…` keyword, the ways without it, or with it and what it requires. */
function dependent(
  place: Place,
  { dependentRequired = {}, dependentSchemas = {} }: SchemaObject,
  trail: readonly string[],
): readonly Ways[] {
  const none: Ways = [[]]
  const either = (name: string, required: readonly string[], then: Ways): Ways => {
    const without = place.implied(`without ${name}`, { ...lacking(name), type: undefined })
    const keyword = then === none ? 'dependentRequired' : 'dependentSchemas'
    const present = place.implied(`${keyword} ${name}`, { required: [name, ...required] })
    return [[without], ...product(place, [[present]], then)]
  }
  const asking = Object.entries(dependentRequired)
  const all = asking.flatMap(([, others]) => others)
  return [
    ...(asking.length > mostDependent
      ? [[[place.implied('all', { required: all })]]]
      : asking.map(([name, others]) => either(name, others, none))),
    ...Object.keys(dependentSchemas).map((name) => {
      const inner = place.child('dependentSchemas', name)
      return either(name, [], [...waysOf(inner, trail)])
    }),
  ]
}

/** The ways to fulfil one of several alternatives and none of the others. */
function oneWay(place: Place, count: number, trail: readonly string[]): Ways {
  const branches = Array.from({ length: count }, (_, index) => place.child('oneOf', index))
  const own = (branch: Place): Ways => waysOf(branch, trail)
  const { compared } = place.document
  // inside one of the alternatives all are taken, valid or not, which is enough to compare them
  if (compared.has(place)) {
    compared.set(place, true)
    return branches.flatMap((branch) => own(branch))
  }
  compared.set(place, false)
  const overlapping = overlaps(place, branches)
  compared.delete(place)
  const [overlap] = overlapping
  if (overlap === undefined) return branches.flatMap((branch) => own(branch))
  try {
    const ways = branches.flatMap((branch, index) => {
      let some = own(branch)
      for (const pair of overlapping) {
        if (!pair.includes(index)) continue
        const other = branches[pair[0] === index ? pair[1] : pair[0]]!
        some = possible(product(place, some, without(branch, other, trail)))
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

/** The ways not to fulfil another alternative: if possible, just without a property that it requires. */
function without(branch: Place, other: Place, trail: readonly string[]): Ways {
  const name = missingName([branch], [other])
  if (name === undefined) return negated(other, trail)
  return [[other.implied(`without ${name}`, lacking(name))]]
}

/** The pairs of alternatives that may both be valid. */
function overlaps(place: Place, branches: readonly Place[]): (readonly [number, number])[] {
  // properties required beside the alternatives are required in each
  const { required } = place.schema as SchemaObject
  const beside: Conjunction =
    required === undefined ? [] : [place.implied('required', { required })]
  const all = branches.map((branch) => [branch, ...beside])
  if (areTold(all)) return []
  const found: (readonly [number, number])[] = []
  for (const [second, right] of all.entries()) {
    for (const [first, left] of all.slice(0, second).entries()) {
      if (!areDisjoint(left, right)) found.push([first, second])
    }
  }
  return found
}

function product(place: Place, left: Ways, right: Ways): Conjunction[] {
  if (left.length * right.length > mostAlternatives) {
    throw refusedSchema(place.pointer, `it has more than ${mostAlternatives} alternatives`)
  }
  const size = (ways: Ways) => ways.reduce((sum, way) => sum + way.length + 1, 0)
  place.spend(size(left) * right.length + left.length * size(right))
  return left.flatMap((one) => right.map((other) => [...new Set([...one, ...other])]))
}

/** Whether there may be values for all required properties. */
function isPossible(way: Conjunction): boolean {
  if (!hasType(way)) return false
  const required = new Set(way.flatMap(({ schema }) => (schema as SchemaObject).required ?? []))
  return [...required].every((name) => {
    const all = way.flatMap((place) => memberOf(place, name, []))
    if (all.some(({ schema }) => schema === false)) return false
    way[0]!.spend(2 * way.length)
    const values = all.map(({ schema }) => listOf(schema)).find((list) => list !== undefined)
    return values === undefined || values.some((value) => accepts(all, value))
  })
}

/** Leaves out the ways whose schemas have types that exclude each other. */
const possible = (ways: Ways): Ways => ways.filter((way) => hasType(way))

const hasType = (way: Conjunction): boolean => typesOf(way)?.length !== 0
