import { canonicalJson } from './canonical-json.js'
import type { Bound } from '../rules/number-rule.js'
import type { Conjunction, Place, SchemaDocument } from './schema-document.js'
import type { SchemaObject, TypeName } from './schema-keywords.js'

/** The types that values have; integers are numbers. */
export type ValueType = Exclude<TypeName, 'integer'>

/** All types, in the order in which they are tried. */
export const valueTypes: readonly ValueType[] = [
  'object',
  'array',
  'string',
  'number',
  'boolean',
  'null',
]

/** Each character of a name is a place where another name may go on differently. */
const stepsPerCharacter = 8

/** All that several schemas without alternatives say together. */
export interface Facts {
  readonly places: Conjunction
  /** Undefined where no schema names types. */
  readonly types: readonly ValueType[] | undefined
  readonly isInteger: boolean
  /** The only values there are, if so, by their {@link canonicalJson}. */
  readonly values: ReadonlyMap<string, unknown> | undefined
  readonly minimum: Bound | undefined
  readonly maximum: Bound | undefined
  readonly minLength: number
  readonly maxLength: number
  readonly patterns: readonly string[]
  readonly formats: readonly string[]
  readonly minItems: number
  readonly maxItems: number
  /** Those of `prefixItems`, by position. */
  readonly prefix: readonly Conjunction[]
  readonly items: Conjunction
  /** In the schemas' order. */
  readonly properties: ReadonlyMap<string, Conjunction>
  readonly required: ReadonlySet<string>
  readonly additional: Conjunction
}

/** Merges what these schemas say, their references and alternatives aside. */
export function factsOf(document: SchemaDocument, places: Conjunction): Facts {
  const schemas = places.map(({ schema }) => schema as SchemaObject)
  document.budget.spend(50 + places.length, places[0]?.pointer ?? '#')
  const present = <Key extends keyof SchemaObject>(key: Key) =>
    schemas.map((schema) => schema[key]).filter((value) => value !== undefined) as NonNullable<
      SchemaObject[Key]
    >[]
  const types = present('type').map((type) => (typeof type === 'string' ? [type] : type))
  const named = types.map((list) => new Set(list.map((type) => valueType(type))))
  return {
    places,
    types:
      named.length === 0 ? undefined : valueTypes.filter((type) => named.every((s) => s.has(type))),
    isInteger: types.some((list) => list.includes('integer') && !list.includes('number')),
    values: valuesOf(document, places),
    minimum: strictest(present('minimum'), present('exclusiveMinimum'), 1),
    maximum: strictest(present('maximum'), present('exclusiveMaximum'), -1),
    minLength: Math.max(0, ...present('minLength')),
    maxLength: Math.min(Infinity, ...present('maxLength')),
    patterns: [...new Set(present('pattern'))],
    formats: [...new Set(present('format'))],
    minItems: Math.max(0, ...present('minItems')),
    maxItems: Math.min(Infinity, ...present('maxItems')),
    ...elementsOf(document, places),
    ...membersOf(document, places),
  }
}

/** The type of a JSON value. */
export function typeOf(value: unknown): ValueType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value as ValueType
}

function valueType(type: TypeName): ValueType {
  return type === 'integer' ? 'number' : type
}

function valuesOf(
  { budget }: SchemaDocument,
  places: Conjunction,
): ReadonlyMap<string, unknown> | undefined {
  let common: Map<string, unknown> | undefined
  for (const { pointer, schema } of places) {
    const { enum: values, const: only } = schema as SchemaObject
    const lists = values === undefined ? [] : [values]
    if (Object.hasOwn(schema as SchemaObject, 'const')) lists.push([only])
    for (const list of lists) {
      const known = new Map<string, unknown>()
      for (const value of list) {
        const text = canonicalJson(value)
        budget.spend(4 + (text.length >> 3), pointer)
        if (common === undefined || common.has(text)) known.set(text, value)
      }
      common = known
    }
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

function elementsOf(
  document: SchemaDocument,
  places: Conjunction,
): Pick<Facts, 'prefix' | 'items'> {
  const length = Math.max(0, ...places.map((place) => prefixOf(place).length))
  document.budget.spend(length * places.length, places[0]?.pointer ?? '#')
  const others = (place: Place): Conjunction =>
    keywordOf(place, 'items') ? [document.child(place, 'items')] : []
  const prefix = Array.from({ length }, (_, index) =>
    places.flatMap((place) =>
      index < prefixOf(place).length
        ? [document.child(place, 'prefixItems', index)]
        : others(place),
    ),
  )
  return { prefix, items: places.flatMap(others) }
}

function membersOf(
  document: SchemaDocument,
  places: Conjunction,
): Pick<Facts, 'properties' | 'required' | 'additional'> {
  const schemas = places.map(({ schema }) => schema as SchemaObject)
  const required = new Set(schemas.flatMap((schema) => schema.required ?? []))
  const names = new Set([
    ...schemas.flatMap((schema) => Object.keys(schema.properties ?? {})),
    ...required,
  ])
  let characters = 0
  for (const name of names) characters += name.length
  const steps = names.size * places.length + stepsPerCharacter * characters
  document.budget.spend(steps, places[0]?.pointer ?? '#')
  const others = (place: Place): Conjunction =>
    keywordOf(place, 'additionalProperties') ? [document.child(place, 'additionalProperties')] : []
  const properties = new Map<string, Conjunction>()
  for (const name of names) {
    const conjunction = places.flatMap((place) =>
      Object.hasOwn((place.schema as SchemaObject).properties ?? {}, name)
        ? [document.child(place, 'properties', name)]
        : others(place),
    )
    properties.set(name, conjunction)
  }
  return { properties, required, additional: places.flatMap(others) }
}

function prefixOf({ schema }: Place): readonly unknown[] {
  return (schema as SchemaObject).prefixItems ?? []
}

function keywordOf({ schema }: Place, keyword: keyof SchemaObject): boolean {
  return Object.hasOwn(schema as SchemaObject, keyword)
}
