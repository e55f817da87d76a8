import { noneOf, notPattern } from '../pattern/parse-pattern.js'
import { typeOf, valueTypes } from './facts.js'
import { impliedProperties, type SchemaObject } from './schema-keywords.js'
import type { Conjunction, Place } from './schema-document.js'

type Raw = Readonly<Record<string, unknown>>

/** The schemas made from a keyword; none if it is missing. */
const each = <T>(keyword: T | undefined, make: (keyword: T) => readonly Raw[]): readonly Raw[] =>
  keyword === undefined ? [] : make(keyword)

/** With more numbers than this to leave out, the ranges between them are not used. */
const mostNumbers = 40

/**
 * Schemas for the ways in which a value can be invalid by a schema, without its references. Together they may cover
 * fewer values than all invalid ones. Some keywords have no such schemas: `multipleOf`, `format`, and keywords for
 * properties without a name.
 */
export function negationsOf(schema: SchemaObject): readonly Raw[] {
  return [
    ...each(schema.type, ofType),
    ...each(schema.enum, otherThan),
    ...ofNumbers(schema),
    ...ofCounts(schema),
    ...each(schema.pattern, (pattern) => [{ type: 'string', pattern: notPattern(pattern) }]),
    ...ofMembers(schema),
    ...ofElements(schema),
    ...ofOthers(schema),
  ]
}

function ofType(type: readonly string[]): readonly Raw[] {
  const named = new Set<string>(type)
  // no schema expresses numbers that are not integers
  if (named.has('integer')) named.add('number')
  const others = valueTypes.filter((one) => !named.has(one))
  return others.length === 0 ? [] : [{ type: others }]
}

function otherThan(values: readonly unknown[]): readonly Raw[] {
  const numbers = [...new Set(values.filter((value) => typeof value === 'number'))]
  const strings = values.filter((value) => typeof value === 'string')
  const booleans = new Set(values.filter((value) => typeof value === 'boolean'))
  const found: Raw[] = []
  const free = valueTypes.filter((type) => !values.some((value) => typeOf(value) === type))
  if (free.length > 0) found.push({ type: free })
  if (strings.length > 0) found.push({ type: 'string', pattern: noneOf(strings) })
  if (booleans.size === 1) found.push({ type: 'boolean', const: !booleans.has(true) })
  return numbers.length === 0 ? found : [...found, ...between(numbers)]
}

/** The ranges below, between and above some numbers. */
function between(numbers: readonly number[]): readonly Raw[] {
  const sorted = numbers.toSorted((a, b) => a - b)
  const [first] = sorted
  const inner = sorted.length > mostNumbers ? [] : sorted.slice(1)
  return [
    { type: 'number', exclusiveMaximum: first },
    ...inner.map((value, index) => ({
      type: 'number',
      exclusiveMinimum: sorted[index],
      exclusiveMaximum: value,
    })),
    { type: 'number', exclusiveMinimum: sorted.at(-1) },
  ]
}

function ofNumbers(schema: SchemaObject): readonly Raw[] {
  const pairs = [
    ['minimum', 'exclusiveMaximum'],
    ['maximum', 'exclusiveMinimum'],
    ['exclusiveMinimum', 'maximum'],
    ['exclusiveMaximum', 'minimum'],
  ] as const
  return pairs.flatMap(([keyword, opposite]) => {
    return each(schema[keyword], (limit) => [{ type: 'number', [opposite]: limit }])
  })
}

function ofCounts(schema: SchemaObject): readonly Raw[] {
  const kinds = [
    ['string', 'minLength', 'maxLength'],
    ['array', 'minItems', 'maxItems'],
    ['object', 'minProperties', 'maxProperties'],
  ] as const
  return kinds.flatMap(([type, least, most]) => [
    ...each(schema[least] || undefined, (min) => [{ type, [most]: min - 1 }]),
    ...each(schema[most], (max) => [{ type, [least]: max + 1 }]),
  ])
}

function ofMembers(schema: SchemaObject): readonly Raw[] {
  const named = Object.entries({ ...schema[impliedProperties], ...schema.properties })
  return [
    ...(schema.required ?? []).map((name) => lacking(name)),
    ...named.map(([name, inner]) => having(name, { not: inner })),
    ...Object.entries(schema.dependentRequired ?? {}).flatMap(([name, others]) =>
      others.map((other) => ({ ...having(name, true), allOf: [lacking(other)] })),
    ),
    ...Object.entries(schema.dependentSchemas ?? {}).map(([name, inner]) => ({
      ...having(name, true),
      not: inner,
    })),
  ]
}

/** The schema of objects without a property. */
export const lacking = (name: string): Raw => ({
  type: 'object',
  [impliedProperties]: { [name]: false },
})

const having = (name: string, schema: unknown): Raw => ({
  type: 'object',
  required: [name],
  [impliedProperties]: { [name]: schema },
})

function ofElements({ items, prefixItems, contains, minContains }: SchemaObject): readonly Raw[] {
  const first = prefixItems ?? []
  return [
    ...first.map((inner, index) => ({
      type: 'array',
      minItems: index + 1,
      prefixItems: [...first.slice(0, index).map(() => true), { not: inner }],
      items: true,
    })),
    ...each(items, (inner) => [
      {
        type: 'array',
        minItems: first.length + 1,
        ...(first.length > 0 && { prefixItems: first.map(() => true) }),
        items: { not: inner },
      },
    ]),
    ...each(minContains === 0 ? undefined : contains, (inner) => [
      { type: 'array', items: { not: inner } },
    ]),
  ]
}

function ofOthers(schema: SchemaObject): readonly Raw[] {
  const { allOf = [], anyOf, oneOf, not: inner, if: condition } = schema
  const none = (list: readonly unknown[]) => [{ allOf: list.map((one) => ({ not: one })) }]
  return [
    ...allOf.map((one) => ({ not: one })),
    ...each(anyOf, none),
    ...each(oneOf, none),
    ...each(inner, (one) => [{ allOf: [one] }]),
    ...each(condition, (met) => [
      ...each(schema.then, (then) => [{ allOf: [met], not: then }]),
      ...each(schema.else, (other) => [{ allOf: [{ not: met }, { not: other }] }]),
    ]),
  ]
}

/**
 * Adds `unevaluatedProperties` and `unevaluatedItems` to a way: they apply to whatever no schema of the way has named,
 * so they become `additionalProperties` and `items`.
 */
export function withUnevaluated(place: Place, way: Conjunction): Conjunction {
  const { unevaluatedProperties: members, unevaluatedItems: elements } =
    place.schema as SchemaObject
  if (members === undefined && elements === undefined) return way
  // schemas derived from a negation evaluate nothing
  const schemas = way
    .filter(({ pointer }) => !/\^\d/.test(pointer))
    .map(({ schema }) => schema as SchemaObject)
  const add = (schema: unknown): Place => {
    const text = JSON.stringify(schema)
    place.spend(text.length >> 3)
    return place.implied(text, schema)
  }
  const isOpen = (keyword: 'additionalProperties' | 'items'): boolean =>
    schemas.every((one) => one[keyword] === undefined)
  const added: Place[] = []
  if (members !== undefined && isOpen('additionalProperties')) {
    added.push(add(otherMembers(schemas, members)))
  }
  if (elements !== undefined && isOpen('items')) added.push(add(otherElements(schemas, elements)))
  return [...way, ...added]
}

function otherMembers(schemas: readonly SchemaObject[], additionalProperties: unknown) {
  const all = (keyword: 'properties' | 'patternProperties') =>
    Object.fromEntries(
      schemas.flatMap((schema) => Object.keys(schema[keyword] ?? {})).map((name) => [name, true]),
    )
  return {
    properties: all('properties'),
    patternProperties: all('patternProperties'),
    additionalProperties,
  }
}

/** The schema of unevaluated elements; elements valid by `contains` count as evaluated. */
function otherElements(schemas: readonly SchemaObject[], others: unknown) {
  const length = Math.max(0, ...schemas.map(({ prefixItems }) => prefixItems?.length ?? 0))
  const found = schemas.flatMap(({ contains }) => (contains === undefined ? [] : [contains]))
  return {
    ...(length > 0 && { prefixItems: Array.from({ length }, () => true) }),
    items: found.length === 0 ? others : { anyOf: [...found, others] },
  }
}
