import { noneOf, notPattern } from '../../pattern/regex-to-gbnf.js'
import { valueTypes } from '../facts.js'
import { heldProperties, type SchemaObject } from '../schema-keywords.js'

type Raw = Readonly<Record<string, unknown>>

/** Numbers that are left out by the ranges between them. */
const mostNumbers = 40

/**
 * Schemas that each say how a value can fail to be valid by a schema, its references aside; what they
 * say together may be narrower than that. Not all keywords have any: none is known for `multipleOf`,
 * `format` and the properties that have no name.
 */
export function negationsOf(schema: SchemaObject): readonly Raw[] {
  return [
    ...ofType(schema),
    ...(schema.enum === undefined ? [] : otherThan(schema.enum)),
    ...ofNumbers(schema),
    ...ofCounts(schema),
    ...(schema.pattern === undefined
      ? []
      : [{ type: 'string', pattern: notPattern(schema.pattern) }]),
    ...ofMembers(schema),
    ...ofElements(schema),
    ...ofOthers(schema),
  ]
}

function ofType({ type }: SchemaObject): readonly Raw[] {
  if (type === undefined) return []
  const named = new Set<string>(type)
  // numbers that are no integers have no schema
  if (named.has('integer')) named.add('number')
  const others = valueTypes.filter((one) => !named.has(one))
  return others.length === 0 ? [] : [{ type: others }]
}

function otherThan(values: readonly unknown[]): readonly Raw[] {
  const numbers = [...new Set(values.filter((value) => typeof value === 'number'))]
  const strings = values.filter((value) => typeof value === 'string')
  const booleans = new Set(values.filter((value) => typeof value === 'boolean'))
  const found: Raw[] = []
  const free = valueTypes.filter((type) => {
    if (type === 'null') return !values.includes(null)
    if (type === 'array') return !values.some((value) => Array.isArray(value))
    if (type === 'object') {
      return !values.some(
        (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
      )
    }
    return !values.some((value) => typeof value === type)
  })
  if (free.length > 0) found.push({ type: free })
  if (strings.length > 0) found.push({ type: 'string', pattern: noneOf(strings) })
  if (booleans.size === 1) found.push({ type: 'boolean', const: !booleans.has(true) })
  return numbers.length === 0 ? found : [...found, ...between(numbers)]
}

/** The ranges that some numbers leave. */
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
    const limit = schema[keyword]
    return limit === undefined ? [] : [{ type: 'number', [opposite]: limit }]
  })
}

function ofCounts(schema: SchemaObject): readonly Raw[] {
  const kinds = [
    ['string', 'minLength', 'maxLength'],
    ['array', 'minItems', 'maxItems'],
    ['object', 'minProperties', 'maxProperties'],
  ] as const
  return kinds.flatMap(([type, least, most]) => {
    const [min, max] = [schema[least] ?? 0, schema[most]]
    return [
      ...(min > 0 ? [{ type, [most]: min - 1 }] : []),
      ...(max === undefined ? [] : [{ type, [least]: max + 1 }]),
    ]
  })
}

function ofMembers(schema: SchemaObject): readonly Raw[] {
  const named = Object.entries({ ...schema[heldProperties], ...schema.properties })
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

/** Objects without a property. */
export const lacking = (name: string): Raw => ({
  type: 'object',
  [heldProperties]: { [name]: false },
})

const having = (name: string, schema: unknown): Raw => ({
  type: 'object',
  required: [name],
  [heldProperties]: { [name]: schema },
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
    ...(items === undefined
      ? []
      : [
          {
            type: 'array',
            minItems: first.length + 1,
            ...(first.length === 0 ? {} : { prefixItems: first.map(() => true) }),
            items: { not: items },
          },
        ]),
    ...(contains === undefined || minContains === 0
      ? []
      : [{ type: 'array', items: { not: contains } }]),
  ]
}

function ofOthers(schema: SchemaObject): readonly Raw[] {
  const { allOf = [], anyOf, oneOf, not: inner, if: condition } = schema
  const none = (list: readonly unknown[] | undefined): readonly Raw[] =>
    list === undefined ? [] : [{ allOf: list.map((one) => ({ not: one })) }]
  return [
    ...allOf.map((one) => ({ not: one })),
    ...none(anyOf),
    ...none(oneOf),
    ...(inner === undefined ? [] : [{ allOf: [inner] }]),
    ...(condition === undefined || schema.then === undefined
      ? []
      : [{ allOf: [condition], not: schema.then }]),
    ...(condition === undefined || schema.else === undefined
      ? []
      : [{ allOf: [{ not: condition }, { not: schema.else }] }]),
  ]
}
