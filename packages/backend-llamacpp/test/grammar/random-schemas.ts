import type { JsonSchema } from '@cllm/core'
import * as fc from 'fast-check'

type Schema = Readonly<Record<string, unknown>>

const upTo = (min: number, spread: number) =>
  fc.tuple(fc.integer({ min: 0, max: min }), fc.integer({ min: 0, max: spread }))

const scalar = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    true,
    false,
    0,
    -3,
    1.5,
    'a',
    '',
    'é "x"\n',
    '\u{1f600}',
    '__proto__',
  ),
  fc.string({ unit: 'grapheme', maxLength: 5 }),
  fc.integer(),
)

const patterns = [
  '^[a-z]{2,5}$',
  '^(?:ab|c+d)?-[0-9]{1,3}$',
  '^\\d{3}-\\d{4}$',
  '^[^a-c"]{1,4}$',
  'x',
  '^A\\.[\\w ]*B$',
  '^(a|b\\t|"){1,3}$',
  '^.{0,6}$',
]

const lengths = upTo(3, 5).map(([minLength, more]) => ({ minLength, maxLength: minLength + more }))

const strings = fc.oneof(
  fc.constant<Schema>({ type: 'string', maxLength: 8 }),
  lengths.map((both) => ({ type: 'string', ...both })),
  lengths.map(({ minLength }) => ({ type: 'string', minLength })),
  fc.constantFrom(...patterns).map((pattern) => ({ type: 'string', pattern })),
  lengths.map((both) => ({ type: 'string', pattern: '^[a-z]*$', ...both })),
  fc
    .constantFrom('date', 'time', 'date-time', 'uuid', 'email', 'ipv4')
    .map((format) => ({ type: 'string', format })),
)

const limit = fc.oneof(
  fc.integer({ min: -2000, max: 2000 }),
  fc.integer({ min: -1_000_000_000, max: 1_000_000_000 }),
  fc.integer({ min: -5000, max: 5000 }).map((value) => value / 100),
)
const limits = fc
  .tuple(limit, limit, fc.integer({ min: 0, max: 3 }), fc.nat(3))
  .map(([one, other, lower, upper]): Schema => {
    const [min, max] = [Math.min(one, other), Math.max(one, other) + 3]
    return {
      ...(lower === 0 ? {} : { [lower === 1 ? 'minimum' : 'exclusiveMinimum']: min }),
      ...(upper === 0 ? {} : { [upper === 1 ? 'maximum' : 'exclusiveMaximum']: max }),
    }
  })
const numbers = fc
  .tuple(fc.constantFrom('integer', 'number'), limits)
  .map(([type, both]): Schema => ({ type, ...both }))

const names = fc.oneof(
  fc.constantFrom('a', 'b', 'id', 'name', 'é"', 'x y', 'constructor', 'toString'),
  fc.string({ maxLength: 4 }),
)

/** Schemas of every supported keyword, in which most outputs are short. */
export const randomSchema: fc.Arbitrary<JsonSchema> = fc
  .letrec<{ schema: Schema; object: Schema; array: Schema; merged: Schema; union: Schema }>(
    (tie) => ({
      schema: fc.oneof(
        { maxDepth: 3, depthSize: 'small' },
        fc.oneof(
          strings,
          numbers,
          fc.constantFrom<Schema>({ type: 'boolean' }, { type: ['null', 'boolean'] }),
          scalar.map((value) => ({ const: value })),
          fc.array(scalar, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
          fc.constant<Schema>({ type: ['integer', 'null'], minimum: -5, maximum: 12 }),
        ),
        tie('object'),
        tie('array'),
        tie('union'),
        tie('merged'),
      ),
      object: fc
        .record({
          properties: fc.dictionary(names, tie('schema'), { maxKeys: 4, noNullPrototype: true }),
          optional: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
          extra: fc.option(names, { freq: 8, nil: undefined }),
          additional: fc.oneof(
            { weight: 5, arbitrary: fc.constant(false) },
            { weight: 1, arbitrary: tie('schema') },
            { weight: 1, arbitrary: fc.constant(undefined) },
          ),
        })
        .map(({ properties, optional, extra, additional }): Schema => {
          const required = Object.keys(properties).filter((_, index) => optional[index])
          const all = extra === undefined || additional === false ? required : [...required, extra]
          return {
            type: 'object',
            properties,
            required: [...new Set(all)],
            ...(additional === undefined ? {} : { additionalProperties: additional }),
          }
        }),
      array: fc
        .record({
          items: tie('schema'),
          prefixItems: fc.option(fc.array(tie('schema'), { minLength: 1, maxLength: 3 }), {
            nil: undefined,
          }),
          isOpen: fc.boolean(),
          count: upTo(3, 3),
        })
        .map(({ items, prefixItems, isOpen, count: [minItems, more] }): Schema => ({
          type: 'array',
          ...(prefixItems === undefined ? {} : { prefixItems }),
          items:
            prefixItems !== undefined && !isOpen && minItems <= prefixItems.length ? false : items,
          minItems,
          ...(isOpen ? {} : { maxItems: minItems + more }),
        })),
      union: fc.oneof(
        fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf): Schema => ({ anyOf })),
        fc.tuple(tie('object'), tie('object')).map((objects): Schema => ({
          oneOf: objects.map((object, index) => ({
            ...object,
            properties: { kind: { const: index }, ...(object['properties'] as Schema) },
            required: ['kind', ...(object['required'] as string[])],
          })),
        })),
        fc.constant<Schema>({ oneOf: [{ type: 'null' }, { type: 'integer', minimum: 3 }] }),
      ),
      merged: fc.oneof(
        fc.tuple(tie('object'), names, tie('schema')).map(([object, name, schema]): Schema => ({
          allOf: [
            { ...object, additionalProperties: true },
            { properties: { [name]: schema }, required: [name] },
          ],
        })),
        fc.constant<Schema>({
          allOf: [{ type: 'integer', minimum: 3 }, { maximum: 17 }],
          type: 'number',
        }),
        fc.constant<Schema>({ $ref: '#/$defs/tree' }),
        fc.constant<Schema>({ $ref: '#/$defs/word', maxLength: 4 }),
      ),
    }),
  )
  .schema.map((schema): JsonSchema => ({
    ...schema,
    $defs: {
      word: { type: 'string', minLength: 1 },
      tree: {
        type: 'object',
        properties: {
          name: { $ref: '#/$defs/word', maxLength: 6 },
          left: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/tree' }] },
        },
        required: ['name'],
        additionalProperties: false,
      },
    },
  }))
