import { refusedSchema } from '../refuse.js'
import type { Conjunction, Place, SchemaDocument } from './schema-document.js'

const mostAlternatives = 512

/**
 * Every way to fulfil all of these schemas at once: `$ref` and `allOf` add schemas to a way, `anyOf`
 * and `oneOf` make several ways. What is left to be kept to in each is the other keywords of the
 * schemas in it. No way: nothing is valid.
 * @throws CllmError `invalid_constraint`
 */
export function alternativesOf(document: SchemaDocument, all: Conjunction): Conjunction[] {
  let ways: Conjunction[] = [[]]
  for (const place of all) ways = product(document, place, ways, waysOf(document, place, []))
  return ways
}

function waysOf(
  document: SchemaDocument,
  place: Place,
  trail: readonly string[],
): readonly Conjunction[] {
  const { pointer, schema } = place
  document.budget.spend(4 + trail.length, pointer)
  if (trail.includes(pointer)) {
    throw refusedSchema(pointer, '$ref leads back to where it started')
  }
  if (schema === true) return [[]]
  if (schema === false) return []
  const inner = [...trail, pointer]
  const child = (keyword: 'allOf' | 'anyOf' | 'oneOf', index: number): readonly Conjunction[] =>
    waysOf(document, document.child(place, keyword, index), inner)
  let ways: readonly Conjunction[] = [[place]]
  if (schema.$ref !== undefined) {
    const target = document.resolve(place, schema.$ref)
    ways = product(document, place, ways, waysOf(document, target, inner))
  }
  for (const index of schema.allOf?.keys() ?? []) {
    ways = product(document, place, ways, child('allOf', index))
  }
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const branches = schema[keyword]
    if (branches === undefined) continue
    if (keyword === 'oneOf') checkDisjoint(document, place, branches.length)
    const some = [...branches.keys()].flatMap((index) => child(keyword, index))
    ways = product(document, place, ways, some)
  }
  return ways
}

function product(
  { budget }: SchemaDocument,
  { pointer }: Place,
  left: readonly Conjunction[],
  right: readonly Conjunction[],
): Conjunction[] {
  if (left.length * right.length > mostAlternatives) {
    throw refusedSchema(pointer, `it has more than ${mostAlternatives} alternatives`)
  }
  const size = (ways: readonly Conjunction[]) => ways.reduce((sum, way) => sum + way.length + 1, 0)
  budget.spend(size(left) * right.length + left.length * size(right), pointer)
  return left.flatMap((one) => right.map((other) => [...new Set([...one, ...other])]))
}

function checkDisjoint(document: SchemaDocument, place: Place, count: number): void {
  // what is required beside the alternatives is so in each
  const { required } = place.schema === true || place.schema === false ? {} : place.schema
  const beside: readonly Place[] =
    required === undefined ? [] : [{ pointer: `${place.pointer}/required`, schema: { required } }]
  for (let second = 1; second < count; second++) {
    for (let first = 0; first < second; first++) {
      const branches = [first, second].map((index) => [
        document.child(place, 'oneOf', index),
        ...beside,
      ])
      if (document.areDisjoint(document, branches[0] ?? [], branches[1] ?? [])) continue
      throw refusedSchema(
        `${place.pointer}/oneOf`,
        `the alternatives ${first} and ${second} may both be valid; use anyOf, or a required ` +
          'property that is const in each',
      )
    }
  }
}
