import { z } from 'zod'
import { formats } from '../rules/formats.js'

const typeNames = ['null', 'boolean', 'object', 'array', 'number', 'string', 'integer'] as const
const typeName = z.enum(typeNames)
const count = z.int().min(0)
const schema = z.union([z.boolean(), z.record(z.string(), z.unknown())], {
  error: 'expected a schema: an object, true or false',
})
const schemas = z.array(schema).min(1)
const namedSchemas = z.record(z.string(), schema)
const text = z.string()

/** In derived schemas: like `properties`, but leaves other properties as free as they were. */
export const impliedProperties = '\0properties'

/** A name of a type in schemas. */
type TypeName = (typeof typeNames)[number]

/** The types that values have; integers are numbers. */
export type ValueType = Exclude<TypeName, 'integer'>

/** A supported keyword of JSON schema. */
export interface SchemaKeyword {
  /** Checks the keyword's value. */
  readonly value: z.ZodType
  /** The description in the documentation. */
  readonly note: string
  /** The type that the keyword implies if `type` is missing. */
  readonly of?: ValueType | undefined
}

const keywordOf = (of?: ValueType) => {
  return <Value extends z.ZodType>(value: Value, note: string) => ({ value, note, of })
}
const keyword = keywordOf()
const ofObjects = keywordOf('object')
const ofArrays = keywordOf('array')
const ofStrings = keywordOf('string')
const ofNumbers = keywordOf('number')

const formatNames = Object.keys(formats)
  .map((name) => `\`${name}\``)
  .join(', ')

/** All supported keywords; `docs/structured-output.md` is generated from this table. */
export const schemaKeywords = {
  type: keyword(
    z.union([typeName, z.array(typeName).min(1)], {
      error: `expected one of ${typeNames.join(', ')}, or an array of them`,
    }),
    'One type or an array of types; `["string", "null"]` makes a string nullable. Without it the other keywords say which types are written.',
  ),
  enum: keyword(
    z.array(z.unknown()).min(1),
    'Values that other keywords of the same schema rule out are left out.',
  ),
  const: keyword(z.unknown(), 'One value.'),
  properties: ofObjects(
    namedSchemas,
    'Written in this order; those that are not required may be left out.',
  ),
  required: ofObjects(z.array(text), 'Those that `properties` does not name come last.'),
  additionalProperties: ofObjects(
    schema,
    'A schema, true or false. Such properties come after all others; their names hold no escapes. Without it an object has the `properties` that are named, and one without `properties` has any.',
  ),
  patternProperties: ofObjects(
    namedSchemas,
    'Such properties come after all others. Each name matches one of the patterns, or each value is valid by all of them.',
  ),
  propertyNames: ofObjects(
    schema,
    'Names from an `enum` are written in its order, names of integers as zod and pydantic mean them.',
  ),
  dependentRequired: ofObjects(
    z.record(z.string(), z.array(text)),
    'Either without the property, or with it and the properties that it requires.',
  ),
  dependentSchemas: ofObjects(
    namedSchemas,
    'Either without the property, or with it and valid by its schema.',
  ),
  unevaluatedProperties: ofObjects(
    schema,
    'As `additionalProperties`, for properties that no schema, merged and referenced ones included, names.',
  ),
  minProperties: ofObjects(count, 'Up to 26 more than `properties` names.'),
  maxProperties: ofObjects(count, 'Any number.'),
  items: ofArrays(
    schema,
    'A schema for all elements that `prefixItems` does not name; a list is read as `prefixItems`.',
  ),
  prefixItems: ofArrays(
    schemas,
    'Schemas by position. Without `items` and `minItems` there are exactly these elements.',
  ),
  unevaluatedItems: ofArrays(schema, 'As `items`, of elements that no schema has named.'),
  contains: ofArrays(
    schema,
    'The first `minContains` elements are valid by it; with `maxContains` all are.',
  ),
  minContains: keyword(count, 'As `minItems`, beside `contains`.'),
  maxContains: keyword(count, 'As `maxItems`, beside `contains`.'),
  minItems: ofArrays(count, 'Up to 100,000.'),
  maxItems: ofArrays(count, 'More counts as 100,000.'),
  uniqueItems: ofArrays(
    z.boolean(),
    'Elements of an `enum`, `const`, boolean or up to 200 integers come once each, in their order. Other elements may repeat: drop duplicates yourself.',
  ),
  minLength: ofStrings(
    count,
    'Unicode characters, up to 100,000; the first and the last required one are no spaces, because validators may trim before counting. Together with `pattern` or `format` strings may have fewer characters than `maxLength` allows.',
  ),
  maxLength: ofStrings(count, 'As `maxItems`.'),
  pattern: ofStrings(
    text,
    'Regular expressions, with word boundaries and Unicode properties, without back references, with look-ahead only where the pattern begins, and anchors only at both ends. A pattern matches anywhere in the string unless it has anchors. Several patterns hold together.',
  ),
  format: ofStrings(
    text,
    `${formatNames}; others are annotations, as the standard says. A \`pattern\` wins over a format that contradicts it.`,
  ),
  multipleOf: ofNumbers(
    z.number().positive(),
    'Of integers and decimal numbers; within wide limits, only numbers with few digits.',
  ),
  minimum: ofNumbers(z.number(), 'Of integers and numbers with up to 15 digits.'),
  maximum: ofNumbers(z.number(), 'As `minimum`.'),
  exclusiveMinimum: ofNumbers(
    z.number(),
    'As `minimum`. Numbers keep away from the limit by one decimal more than it has.',
  ),
  exclusiveMaximum: ofNumbers(z.number(), 'As `exclusiveMinimum`.'),
  anyOf: keyword(
    schemas,
    'With keywords beside it, which hold for every alternative. An alternative whose `pattern` is unsupported is left out, unless it is the only one.',
  ),
  oneOf: keyword(
    schemas,
    'Where the alternatives exclude each other: by type, by `enum` or `const`, by a required property with exclusive values, or by limits.',
  ),
  allOf: keyword(schemas, 'All schemas are merged.'),
  not: keyword(
    schema,
    'Of types, `enum`, `const`, limits, lengths, counts, `pattern`, `required`, `properties`, elements and their combinations; output may be narrower.',
  ),
  if: keyword(schema, 'One way is `if` with `then`, the other one `not` with `else`.'),
  // oxlint-disable-next-line unicorn/no-thenable -- it is a keyword of JSON schema's
  then: keyword(schema, 'As `if`.'),
  else: keyword(schema, 'As `if`.'),
  $ref: keyword(
    text,
    'JSON pointers, `$anchor` and `$id` in the same schema, recursive ones too, with keywords beside it.',
  ),
  $dynamicRef: keyword(text, 'As `$ref`, where one schema has the `$dynamicAnchor`.'),
  contentSchema: ofStrings(
    schema,
    'Beside `contentMediaType: application/json`: the text of a value that is valid by it. With `pattern`, `format` or a length it is an annotation.',
  ),
} as const satisfies Readonly<Record<string, SchemaKeyword>>

const rows: readonly (readonly [string, SchemaKeyword])[] = [
  ...Object.entries(schemaKeywords),
  [impliedProperties, ofObjects(namedSchemas, '')],
]

/** The type of values that each keyword applies to; undefined: to values of all types. */
export const typesOfKeywords: ReadonlyMap<string, ValueType | undefined> = new Map(
  rows.map(([name, { of }]) => [name, of]),
)

const holding = (...kinds: readonly z.ZodType[]): string[] =>
  rows.flatMap(([name, { value }]) => (kinds.includes(value) ? [name] : []))

/** The keywords that contain one schema or a list, and those that contain schemas by name, including older drafts'. */
export const holders = ['additionalItems', ...holding(schema, schemas)]
export const maps = ['$defs', 'definitions', 'dependencies', ...holding(namedSchemas)]

/**
 * Checks the keywords of one schema, without those of the schemas inside it. Unknown keywords are annotations.
 */
export const keywordsSchema = z.object(
  Object.fromEntries(rows.map(([name, { value }]) => [name, value.optional()])),
)

type Values = {
  readonly [Name in keyof typeof schemaKeywords]?: DeepReadonly<
    z.infer<(typeof schemaKeywords)[Name]['value']>
  >
}

/** A checked schema: `type` is always a list, and a `const` became an `enum`. */
export interface SchemaObject extends Omit<Values, 'const' | 'type'> {
  readonly type?: readonly TypeName[]
  readonly [impliedProperties]?: Readonly<Record<string, unknown>>
}

type DeepReadonly<T> = T extends readonly (infer One)[]
  ? readonly One[]
  : T extends Record<string, infer One>
    ? Readonly<Record<string, DeepReadonly<One>>>
    : T
