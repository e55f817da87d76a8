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

/** Properties that hold without a word on others, as schemas that are made of others have them. */
export const heldProperties = '\0properties'

/** A type that a schema can name. */
export type TypeName = (typeof typeNames)[number]

/** A keyword of JSON schema that output is kept to. */
export interface SchemaKeyword {
  /** What its value must be. */
  readonly value: z.ZodType
  /** For the documentation. */
  readonly note: string
}

const keyword = (value: z.ZodType, note: string): SchemaKeyword => ({ value, note })

/** Every keyword that output is kept to; `docs/structured-output.md` is made from this table. */
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
  properties: keyword(
    namedSchemas,
    'Written in this order; those that are not required may be left out.',
  ),
  required: keyword(z.array(text), 'Those that `properties` does not name come last.'),
  additionalProperties: keyword(
    schema,
    'A schema, true or false. Such properties come after all others; their names hold no escapes. Without it an object has the `properties` that are named, and one without `properties` has any.',
  ),
  patternProperties: keyword(
    namedSchemas,
    'Such properties come after all others. Each name matches one of the patterns, or each value is valid by all of them.',
  ),
  propertyNames: keyword(
    schema,
    'Names from an `enum` are written in its order, names of integers as zod and pydantic mean them.',
  ),
  dependentRequired: keyword(
    z.record(z.string(), z.array(text)),
    'Without the property, or with it and those that it asks for.',
  ),
  dependentSchemas: keyword(
    namedSchemas,
    'Without the property, or with it and as the schema says.',
  ),
  unevaluatedProperties: keyword(
    schema,
    'As `additionalProperties`, of what neither the schema nor any that it refers to or merges has named.',
  ),
  minProperties: keyword(count, 'Up to 26 more than `properties` names.'),
  maxProperties: keyword(count, 'Any number.'),
  items: keyword(
    schema,
    'A schema for all elements that `prefixItems` does not name; a list is read as `prefixItems`.',
  ),
  prefixItems: keyword(
    schemas,
    'Schemas by position. Without `items` and `minItems` there are exactly these elements.',
  ),
  unevaluatedItems: keyword(schema, 'As `items`, of elements that no schema has named.'),
  contains: keyword(
    schema,
    'The first elements are valid by it, as many as must be; with `maxContains` all are.',
  ),
  minContains: keyword(count, 'As `minItems`, beside `contains`.'),
  maxContains: keyword(count, 'As `maxItems`, beside `contains`.'),
  minItems: keyword(count, 'Up to 100,000.'),
  maxItems: keyword(count, 'Up to 100,000.'),
  uniqueItems: keyword(
    z.boolean(),
    'Elements of an `enum`, `const`, boolean or up to 200 integers come once each, in their order. Other elements may come again: those who need each once drop what came before.',
  ),
  minLength: keyword(
    count,
    'Unicode characters, up to 100,000; the first one and the last one that must come are no spaces, as many trim a text before they count. Together with `pattern` or `format` strings may have fewer characters than `maxLength` allows.',
  ),
  maxLength: keyword(count, 'As `minLength`.'),
  pattern: keyword(
    text,
    'Regular expressions without back references, word boundaries and Unicode properties, with look-ahead only where the pattern begins, and anchors only at both ends. A pattern matches anywhere in the string unless it has anchors. Several patterns hold together.',
  ),
  format: keyword(
    text,
    `${Object.keys(formats)
      .map((name) => `\`${name}\``)
      .join(
        ', ',
      )}; others are annotations, as the standard says. Beside a \`pattern\` that it contradicts the pattern counts.`,
  ),
  multipleOf: keyword(
    z.number().positive(),
    'Of integers and decimal numbers; where limits leave many numbers, those with few digits.',
  ),
  minimum: keyword(z.number(), 'Of integers and numbers with up to 15 digits.'),
  maximum: keyword(z.number(), 'As `minimum`.'),
  exclusiveMinimum: keyword(
    z.number(),
    'As `minimum`. Numbers keep away from the limit by one decimal more than it has.',
  ),
  exclusiveMaximum: keyword(z.number(), 'As `exclusiveMinimum`.'),
  anyOf: keyword(
    schemas,
    'With keywords beside it, which hold for every alternative. Strings whose `pattern` cannot be kept to are left out where there is another alternative.',
  ),
  oneOf: keyword(
    schemas,
    'Where the alternatives exclude each other: by type, by `enum` or `const`, by a required property for which that is so, or by their limits.',
  ),
  allOf: keyword(schemas, 'All schemas are merged.'),
  not: keyword(
    schema,
    'Of types, `enum`, `const`, limits, lengths, counts, `pattern`, `required`, `properties`, elements and what is made of them; what is written may be narrower.',
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
  contentSchema: keyword(
    schema,
    'Beside `contentMediaType: application/json`: the text of a value that is valid by it. With `pattern`, `format` or a length it is an annotation.',
  ),
} as const satisfies Readonly<Record<string, SchemaKeyword>>

const checked: readonly (readonly [string, z.ZodType])[] = [
  ...Object.entries(schemaKeywords).map(([name, { value }]) => [name, value] as const),
  [heldProperties, namedSchemas],
]

/**
 * Checks the keywords of one schema, not those of the schemas inside it. What is no keyword of JSON
 * schema's is an annotation.
 */
export const keywordsSchema = z.object(
  Object.fromEntries(checked.map(([name, value]) => [name, value.optional()])),
)

/** The keywords of a schema that was checked. */
export interface SchemaObject {
  readonly type?: TypeName | readonly TypeName[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, unknown>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
  readonly patternProperties?: Readonly<Record<string, unknown>>
  readonly propertyNames?: unknown
  readonly minProperties?: number
  readonly maxProperties?: number
  readonly items?: unknown
  readonly prefixItems?: readonly unknown[]
  readonly contains?: unknown
  readonly minContains?: number
  readonly maxContains?: number
  readonly uniqueItems?: boolean
  readonly multipleOf?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly anyOf?: readonly unknown[]
  readonly oneOf?: readonly unknown[]
  readonly allOf?: readonly unknown[]
  readonly not?: unknown
  readonly if?: unknown
  readonly then?: unknown
  readonly else?: unknown
  readonly dependentRequired?: Readonly<Record<string, readonly string[]>>
  readonly dependentSchemas?: Readonly<Record<string, unknown>>
  readonly unevaluatedProperties?: unknown
  readonly unevaluatedItems?: unknown
  readonly contentSchema?: unknown
  readonly $ref?: string
  readonly $dynamicRef?: string
  readonly [heldProperties]?: Readonly<Record<string, unknown>>
}
