import { canonicalJson, type Conjunction, type Place } from './schema-document.js'
import type { Bound, Bounds } from '../rules/decimals.js'
import { impliedProperties, type SchemaObject, type ValueType } from './schema-keywords.js'

/** All types, in the order in which they are tried. */
export const valueTypes: readonly ValueType[] = [
  'object',
  'array',
  'string',
  'number',
  'boolean',
  'null',
]

/** Steps for each character of a name, as another name may differ from it there. */
const stepsPerCharacter = 8

/** For `contains`, at most this many elements at the beginning get another rule than the rest. */
const mostContained = 20

/** What several schemas without alternatives together demand of a value. */
export interface Facts extends Bounds {
  readonly places: Conjunction
  /** The allowed types; undefined if no schema names types. */
  readonly types: readonly ValueType[] | undefined
  readonly isInteger: boolean
  /** The only allowed values by their {@link canonicalJson}; undefined if none are listed. */
  readonly values: ReadonlyMap<string, unknown> | undefined
  /** Numbers are multiples of all of these. */
  readonly multiples: readonly number[]
  readonly minLength: number
  readonly maxLength: number
  readonly patterns: readonly string[]
  readonly formats: readonly string[]
  readonly minItems: number
  readonly maxItems: number
  readonly isUnique: boolean
  /** The schemas of the first elements, by position. */
  readonly prefix: readonly Conjunction[]
  readonly items: Conjunction
  /** The schemas of each named property, in the schemas' order. */
  readonly properties: ReadonlyMap<string, Conjunction>
  readonly required: ReadonlySet<string>
  /** The schemas of other properties, as in the standard. */
  readonly additional: Conjunction
  /** Whether no other properties are written, because `properties` is given without `additionalProperties`. */
  readonly isClosed: boolean
  /** By pattern: the schemas of unnamed properties whose names match only this pattern. */
  readonly patterned: ReadonlyMap<string, Conjunction>
  readonly names: Conjunction
  /** Strings contain the text of a JSON value that is valid by these schemas; empty: they may be any texts. */
  readonly content: Conjunction
  readonly minProperties: number
  readonly maxProperties: number
}

/** The ways of single schemas, as each may be compared with all others. */
const known = new WeakMap<Place, readonly Facts[]>()

/** The facts of each way to fulfil all of these schemas at once. */
export function waysOf(all: Conjunction): readonly Facts[] {
  const [first] = all
  if (first === undefined) return [unlimited]
  first.spend(1)
  const before = all.length === 1 ? known.get(first) : undefined
  if (before !== undefined) return before
  const ways = first.document.alternativesOf(all).map(factsOf)
  const isOpen = [...first.document.compared.values()].includes(true)
  if (all.length === 1 && !isOpen) known.set(first, ways)
  return ways
}

/** Merges the keywords of these schemas, except references and alternatives. */
function factsOf(places: Conjunction): Facts {
  const [first] = places
  if (first === undefined) return unlimited
  first.spend(places.reduce((sum, place) => sum + 1 + (place.size >> 3), 50))
  return merged(places)
}

function merged(places: Conjunction): Facts {
  const schemas = schemasOf(places)
  const present = <Key extends keyof SchemaObject>(key: Key) =>
    schemas.map((schema) => schema[key]).filter((value) => value !== undefined) as NonNullable<
      SchemaObject[Key]
    >[]
  return {
    places,
    types: typesOf(places),
    isInteger: present('type').some((list) => list.includes('integer') && !list.includes('number')),
    values: valuesOf(places),
    minimum: strictest(present('minimum'), present('exclusiveMinimum'), 1),
    maximum: strictest(present('maximum'), present('exclusiveMaximum'), -1),
    multiples: [...new Set(present('multipleOf'))],
    minLength: Math.max(0, ...present('minLength')),
    maxLength: Math.min(Infinity, ...present('maxLength')),
    patterns: [...new Set(present('pattern'))],
    formats: [...new Set(present('format'))],
    isUnique: present('uniqueItems').includes(true),
    ...lengthsOf(places),
    ...elementsOf(places),
    minProperties: Math.max(0, ...present('minProperties')),
    maxProperties: Math.min(Infinity, ...present('maxProperties')),
    names: places.flatMap((place) => place.own('propertyNames')),
    content: places.flatMap((place) => place.own('contentSchema')),
    ...membersOf(places),
  }
}

/** The types that all of these schemas allow; undefined if none names types. */
export function typesOf(places: Conjunction): readonly ValueType[] | undefined {
  const named = schemasOf(places).flatMap(({ type }) => (type === undefined ? [] : [type]))
  const lists = named.map((list) => list.map((one) => (one === 'integer' ? 'number' : one)))
  if (lists.length === 0) return undefined
  return valueTypes.filter((type) => lists.every((list) => list.includes(type)))
}

/** The type of a JSON value. */
export function typeOf(value: unknown): ValueType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value as ValueType
}

function valuesOf(places: Conjunction): ReadonlyMap<string, unknown> | undefined {
  let common: Map<string, unknown> | undefined
  for (const place of places) {
    const { enum: list } = place.schema as SchemaObject
    if (list === undefined) continue
    const known = new Map<string, unknown>()
    for (const value of list) {
      const text = canonicalJson(value)
      place.spend(4 + (text.length >> 3))
      if (common === undefined || common.has(text)) known.set(text, value)
    }
    common = known
  }
  return common
}

function strictest(
  inclusive: readonly number[],
  exclusive: readonly number[],
  sign: 1 | -1,
): Bound | undefined {
  const bounds = [
    ...inclusive.map((value) => ({ value, isExclusive: false })),
    ...exclusive.map((value) => ({ value, isExclusive: true })),
  ]
  return bounds.toSorted(
    (a, b) => sign * (b.value - a.value) || Number(b.isExclusive) - Number(a.isExclusive),
  )[0]
}

/** The limits on an array's length. A `prefixItems` without `minItems` and `items` is always written as a whole. */
function lengthsOf(places: Conjunction): Pick<Facts, 'minItems' | 'maxItems'> {
  let [minItems, maxItems, whole, most] = [0, Infinity, 0, Infinity]
  for (const place of places) {
    const schema = place.schema as SchemaObject
    const { items, contains, minContains = 1, maxContains = Infinity } = schema
    const listed = prefixOf(place).length
    if (listed > 0 && schema.minItems === undefined && items === undefined) {
      whole = Math.max(whole, listed)
    }
    if (items === false) most = Math.min(most, listed)
    maxItems = Math.min(maxItems, schema.maxItems ?? Infinity)
    minItems = Math.max(minItems, schema.minItems ?? 0)
    if (contains === undefined) continue
    maxItems = Math.min(maxItems, maxContains)
    minItems = Math.max(minItems, minContains)
  }
  if (whole === 0) return { minItems, maxItems }
  const length = Math.max(minItems, Math.min(whole, maxItems, most))
  return { minItems: length, maxItems: Math.min(maxItems, length) }
}

function elementsOf(places: Conjunction): Pick<Facts, 'prefix' | 'items'> {
  const schemas = schemasOf(places)
  const isUnique = schemas.some(({ uniqueItems }) => uniqueItems === true)
  /** The number of elements at the beginning that are made valid by the place's `contains`. */
  const first = ({ schema }: Place): number => {
    const { contains, minContains = 1, maxContains } = schema as SchemaObject
    if (contains === undefined) return 0
    return isUnique || maxContains !== undefined || minContains > mostContained
      ? Infinity
      : minContains
  }
  const least = places.map(first).filter((count) => count < Infinity)
  const length = Math.max(0, ...least, ...places.map((place) => prefixOf(place).length))
  places[0]?.spend(length * places.length)
  const at = (index: number): Conjunction =>
    places.flatMap((place) => [
      ...(index < prefixOf(place).length
        ? [place.child('prefixItems', index)]
        : place.own('items')),
      ...(index < first(place) ? place.own('contains') : []),
    ])
  return { prefix: Array.from({ length }, (_, index) => at(index)), items: at(length) }
}

type Members = Pick<Facts, 'properties' | 'required' | 'additional' | 'isClosed' | 'patterned'>

function membersOf(places: Conjunction): Members {
  const additional = places.flatMap((place) => place.own('additionalProperties'))
  const isClosed = places.some(namesProperties) && additional.length === 0
  return {
    properties: propertiesOf(places, isClosed),
    required: requiredBy(places),
    additional,
    isClosed,
    patterned: patternedOf(places),
  }
}

/** For each property that a schema names, requires or implies: the schemas of its value, from all schemas. */
function propertiesOf(places: Conjunction, isClosed: boolean): ReadonlyMap<string, Conjunction> {
  const named = namesIn(places, 'properties')
  const implied = namesIn(places, impliedProperties)
  const names = new Set([...named, ...requiredBy(places), ...implied])
  const characters = [...names].join('').length
  places[0]?.spend(names.size * places.length + stepsPerCharacter * characters)
  const requiredByAuthor = requiredBy(places.filter(({ isImplied }) => !isImplied))
  // zod closes both sides of an intersection: together they have the properties of both
  const naming = schemasOf(places.filter(namesProperties))
  const areSides =
    naming.length > 1 && naming.every(({ additionalProperties: more }) => more === false)
  const properties = new Map<string, Conjunction>()
  for (const name of names) {
    const all = places.flatMap((place) => {
      const isOfOtherSide = areSides && named.has(name) && namesProperties(place)
      return memberOf(place, name, isOfOtherSide ? [] : ['additionalProperties'])
    })
    // if an object is closed, properties that only negations mention are not written
    const isOfNegations = implied.has(name) && !named.has(name) && !requiredByAuthor.has(name)
    if (isClosed && isOfNegations) all.push(places[0]!.implied('never', false))
    properties.set(name, all)
  }
  return properties
}

/** For each pattern: the schemas of properties whose names match only this pattern, from all schemas. */
function patternedOf(places: Conjunction): ReadonlyMap<string, Conjunction> {
  const patterns = namesIn(places, 'patternProperties')
  places[0]?.spend(patterns.size * places.length)
  const saidBy = (place: Place, pattern: string): readonly Place[] =>
    Object.hasOwn((place.schema as SchemaObject).patternProperties ?? {}, pattern)
      ? [place.child('patternProperties', pattern)]
      : place.own('additionalProperties')
  const all = (pattern: string) => places.flatMap((place) => saidBy(place, pattern))
  return new Map(Array.from(patterns, (pattern) => [pattern, all(pattern)]))
}

const requiredBy = (places: Conjunction): ReadonlySet<string> =>
  new Set(schemasOf(places).flatMap(({ required = [] }) => required))

const namesProperties = ({ schema }: Place): boolean =>
  (schema as SchemaObject).properties !== undefined

type Naming = 'properties' | 'patternProperties' | typeof impliedProperties

const namesIn = (places: Conjunction, keyword: Naming): ReadonlySet<string> =>
  new Set(schemasOf(places).flatMap((schema) => Object.keys(schema[keyword] ?? {})))

/**
 * The schemas of a property in one schema.
 *
 * @param more - the keywords to use for properties that it does not name
 */
export function memberOf(
  place: Place,
  name: string,
  more: readonly ('additionalProperties' | 'unevaluatedProperties')[],
): readonly Place[] {
  const { document, pointer } = place
  const schema = place.schema as SchemaObject
  const { properties = {}, patternProperties = {}, [impliedProperties]: implied = {} } = schema
  const known = Object.keys(patternProperties)
    .filter((pattern) => document.matches(pattern, name, `${pointer}/patternProperties`))
    .map((pattern) => place.child('patternProperties', pattern))
  if (Object.hasOwn(properties, name)) known.unshift(place.child('properties', name))
  const also = Object.hasOwn(implied, name) ? [place.child(impliedProperties, name)] : []
  const others = known.length > 0 ? [] : more.flatMap((keyword) => place.own(keyword))
  return [...known, ...also, ...others]
}

const schemasOf = (places: Conjunction): SchemaObject[] =>
  places.map(({ schema }) => schema as SchemaObject)

const prefixOf = ({ schema }: Place): readonly unknown[] =>
  (schema as SchemaObject).prefixItems ?? []

/** The facts if no schema demands anything. */
const unlimited = merged([])
