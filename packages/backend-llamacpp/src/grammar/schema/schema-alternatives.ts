import { CllmError } from '@cllm/core'
import { refusedSchema } from '../refuse.js'
import { areDisjoint, areTold, missingName } from './disjoint.js'
import { memberOf } from './facts.js'
import { accepts } from './is-valid.js'
import { lacking, negationsOf, withUnevaluated } from './implied-schemas.js'
import type { Conjunction, Place, SchemaDocument } from './schema-document.js'
import type { SchemaObject } from './schema-keywords.js'

const mostAlternatives = 512
/** More ways are looked at for those that nothing can fulfil, as chains of `if` have many. */
const few = 8
/** On more properties the schemas are not told apart: all that is asked for is there. */
const mostDependent = 4

type Ways = readonly Conjunction[]

/**
 * Every way to fulfil all of these schemas at once: `$ref` and `allOf` add schemas to a way, `anyOf`,
 * `oneOf`, `if` and what depends on properties make several ways. What is left to be kept to in each is
 * the other keywords of the schemas in it. No way: nothing is valid.
 * @throws CllmError `invalid_constraint`
 */
export function alternativesOf(document: SchemaDocument, all: Conjunction): Conjunction[] {
  return valuesOf(document, all) ?? new WaysOfSchemas(document).of(all)
}

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

/** The ways to fulfil the schemas of a document. */
class WaysOfSchemas {
  constructor(private readonly document: SchemaDocument) {}

  /** To fulfil all of these. */
  of(all: Conjunction): Conjunction[] {
    let ways: Conjunction[] = [[]]
    for (const place of all) ways = this.#product(place, ways, this.#waysOf(place, []))
    return ways
  }

  #waysOf(place: Place, trail: readonly string[]): Ways {
    const { schema } = place
    if (schema === true) return [[]]
    if (schema === false) return []
    const inner = this.#goOn(place, trail, '')
    const child = (...path: readonly (string | number)[]): Ways =>
      this.#waysOf(this.document.child(place, ...path), inner)
    let ways: Ways = [[place]]
    const and = (others: Ways): void => {
      const both = this.#product(place, ways, others)
      ways = both.length > few ? both.filter((way) => this.#isPossible(way)) : both
    }
    for (const referred of this.document.referred(place)) and(this.#waysOf(referred, inner))
    for (const index of schema.allOf?.keys() ?? []) and(child('allOf', index))
    if (schema.anyOf !== undefined) {
      and([...schema.anyOf.keys()].flatMap((index) => child('anyOf', index)))
    }
    if (schema.oneOf !== undefined) and(this.#oneWay(place, schema.oneOf.length, inner))
    if (schema.not !== undefined) and(this.#not(place, 'not', inner))
    if (schema.if !== undefined) and(this.#conditional(place, schema, inner))
    for (const others of this.#dependent(place, schema, inner)) and(others)
    return ways.map((way) => withUnevaluated(this.document, place, schema, way))
  }

  #goOn({ pointer, size }: Place, trail: readonly string[], kind: '' | '^'): readonly string[] {
    this.document.budget.spend(4 + trail.length + (pointer.length >> 6) + (size >> 3), pointer)
    if (trail.includes(pointer + kind)) {
      throw refusedSchema(pointer, '$ref leads back to where it started')
    }
    return [...trail, pointer + kind]
  }

  /** The ways not to fulfil a schema, or as many as are known. */
  #negated(place: Place, trail: readonly string[]): Ways {
    const { pointer, schema } = place
    if (schema === true) return []
    if (schema === false) return [[]]
    const inner = this.#goOn(place, trail, '^')
    // each says of all elements before it that they are there
    const before = schema.prefixItems?.length ?? 0
    this.document.budget.spend(place.size + ((before * before) >> 1), pointer)
    const direct = negationsOf(schema).flatMap((made, index) =>
      this.#waysOf(this.document.place(`${pointer}^${index}`, made), inner),
    )
    const referred = this.document.referred(place).flatMap((one) => this.#negated(one, inner))
    return [...direct, ...referred]
  }

  /** What a `not` or the other side of an `if` asks for. */
  #not(place: Place, keyword: 'not' | 'if', trail: readonly string[]): Ways {
    const unwanted = this.document.child(place, keyword)
    const ways = this.#negated(unwanted, trail)
    const isEmpty = unwanted.schema === true || Object.keys(unwanted.schema).length === 0
    if (ways.length > 0 || isEmpty || place.pointer.includes('^')) return ways
    throw refusedSchema(
      `${place.pointer}/${keyword}`,
      `the keyword ${keyword} is not supported with what is said here`,
    )
  }

  #conditional(place: Place, schema: SchemaObject, trail: readonly string[]): Ways {
    const side = (keyword: 'if' | 'then' | 'else'): Ways =>
      keyword !== 'if' && schema[keyword] === undefined
        ? [[]]
        : this.#waysOf(this.document.child(place, keyword), trail)
    if (schema.then === undefined && schema.else === undefined) return [[]]
    return [
      ...possible(this.#product(place, side('if'), side('then'))),
      ...possible(this.#product(place, this.#not(place, 'if', trail), side('else'))),
    ]
  }

  /** For each property on which something depends: without it, or with it and the rest. */
  #dependent(
    place: Place,
    { dependentRequired = {}, dependentSchemas = {} }: SchemaObject,
    trail: readonly string[],
  ): readonly Ways[] {
    const { pointer } = place
    const none: Ways = [[]]
    const either = (name: string, required: readonly string[], then: Ways): Ways => {
      const made = (what: string, schema: unknown): Place =>
        this.document.place(`${pointer}^${what} ${name}`, schema)
      const without = made('without', { ...lacking(name), type: undefined })
      const keyword = then === none ? 'dependentRequired' : 'dependentSchemas'
      const present = made(keyword, { required: [name, ...required] })
      return [[without], ...this.#product(place, [[present]], then)]
    }
    const asking = Object.entries(dependentRequired)
    const all = asking.flatMap(([, others]) => others)
    return [
      ...(asking.length > mostDependent
        ? [[[this.document.place(`${pointer}^all`, { required: all })]]]
        : asking.map(([name, others]) => either(name, others, none))),
      ...Object.keys(dependentSchemas).map((name) => {
        const inner = this.document.child(place, 'dependentSchemas', name)
        return either(name, [], [...this.#waysOf(inner, trail)])
      }),
    ]
  }

  /** The ways to fulfil one of several alternatives and none of the others. */
  #oneWay(place: Place, count: number, trail: readonly string[]): Ways {
    const branches = Array.from({ length: count }, (_, index) =>
      this.document.child(place, 'oneOf', index),
    )
    const overlapping = this.#overlaps(place, branches)
    const [overlap] = overlapping
    const own = (branch: Place): Ways => this.#waysOf(branch, trail)
    if (overlap === undefined) return branches.flatMap((branch) => own(branch))
    try {
      const ways = branches.flatMap((branch, index) => {
        let some = own(branch)
        for (const pair of overlapping) {
          if (!pair.includes(index)) continue
          const other = branches[pair[0] === index ? pair[1] : pair[0]]!
          some = possible(this.#product(place, some, this.#without(branch, other, trail)))
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
  #without(branch: Place, other: Place, trail: readonly string[]): Ways {
    const name = missingName(this.document, [branch], [other])
    if (name === undefined) return this.#negated(other, trail)
    return [[this.document.place(`${other.pointer}^without ${name}`, lacking(name))]]
  }

  /** The pairs of alternatives that may both be valid. */
  #overlaps(place: Place, branches: readonly Place[]): (readonly [number, number])[] {
    // what is required beside the alternatives is so in each
    const { required } = place.schema as SchemaObject
    const beside: Conjunction =
      required === undefined ? [] : [this.document.place(`${place.pointer}^required`, { required })]
    const all = branches.map((branch) => [branch, ...beside])
    if (areTold(this.document, all)) return []
    const found: (readonly [number, number])[] = []
    for (const [second, right] of all.entries()) {
      for (const [first, left] of all.slice(0, second).entries()) {
        if (!areDisjoint(this.document, left, right)) found.push([first, second])
      }
    }
    return found
  }

  #product({ pointer }: Place, left: Ways, right: Ways): Conjunction[] {
    if (left.length * right.length > mostAlternatives) {
      throw refusedSchema(pointer, `it has more than ${mostAlternatives} alternatives`)
    }
    const size = (ways: Ways) => ways.reduce((sum, way) => sum + way.length + 1, 0)
    this.document.budget.spend(size(left) * right.length + left.length * size(right), pointer)
    return left.flatMap((one) => right.map((other) => [...new Set([...one, ...other])]))
  }

  /** Whether there may be values for all properties that must come. */
  #isPossible(way: Conjunction): boolean {
    if (!hasType(way)) return false
    const required = new Set(way.flatMap(({ schema }) => (schema as SchemaObject).required ?? []))
    return [...required].every((name) => {
      const all = way.flatMap((place) => memberOf(this.document, place, name, []))
      if (all.some(({ schema }) => schema === false)) return false
      this.document.budget.spend(2 * way.length, way[0]!.pointer)
      const values = all.map(({ schema }) => listOf(schema)).find((list) => list !== undefined)
      return values === undefined || values.some((value) => accepts(this.document, all, value))
    })
  }
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
