import { isDeepStrictEqual } from 'node:util'
import type { Bound } from './number-rule.js'
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

/** All that several schemas without alternatives say together. */
export interface Facts {
  readonly places: Conjunction
  /** Undefined where no schema names types. */
  readonly types: readonly ValueType[] | undefined
  readonly isInteger: boolean
  /** The only values there are, if so. */
  readonly values: readonly unknown[] | undefined
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
    values: valuesOf(schemas),
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

function valuesOf(schemas: readonly SchemaObject[]): unknown[] | undefined {
  const lists = schemas.flatMap((schema) => [
    ...(schema.enum === undefined ? [] : [schema.enum]),
    ...(Object.hasOwn(schema, 'const') ? [[schema.const]] : []),
  ])
  const [first, ...others] = lists
  return first?.filter((value) =>
    others.every((list) => list.some((other) => isDeepStrictEqual(other, value))),
  )
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
