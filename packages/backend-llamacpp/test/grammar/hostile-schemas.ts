/* oxlint-disable unicorn/no-thenable -- it is a keyword of JSON schema's */
import type { JsonSchema } from '@cllm/core'
import * as fc from 'fast-check'

type Schema = Readonly<Record<string, unknown>>

const list = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))
const named = (count: number, make: (index: number) => unknown): Record<string, unknown> =>
  Object.fromEntries(list(count, (index) => [`p${index}`, make(index)]))
const object = (count: number, make: (index: number) => unknown): Schema => ({
  type: 'object',
  properties: named(count, make),
})
const every = (count: number, schema: Schema): Schema[] => list(count, () => schema)
const signs = (count: number): string =>
  list(count, (nth) => String.fromCodePoint(0x4e00 + 2 * nth)).join('')
const scripts =
  'Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Bengali Tamil Telugu Thai Lao Tibetan ' +
  'Myanmar Georgian Hangul Ethiopic Cherokee Ogham Runic Khmer Mongolian Hiragana Katakana Bopomofo'
const properties = scripts
  .split(' ')
  .flatMap((script) =>
    ['Script', 'sc', 'Script_Extensions', 'scx'].map((name) => `\\p{${name}=${script}}`),
  )

const nested = (depth: number, wrap: (inner: Schema) => Schema): Schema =>
  list(depth, () => 0).reduce<Schema>((inner) => wrap(inner), { type: 'string' })
/** Definitions that each use the next. */
const chain = (length: number, use: (next: Schema) => Schema): Schema => ({
  $ref: '#/$defs/p0',
  $defs: named(length, (nth) =>
    nth === length - 1 ? { type: 'string' } : use({ $ref: `#/$defs/p${nth + 1}` }),
  ),
})
const text = (pattern: string, more: Schema = {}): Schema => ({ type: 'string', pattern, ...more })
const letter = (nth: number): string => String.fromCodePoint(97 + nth)
const formats = ['email', 'ipv6', 'uri', 'date-time', 'duration', 'uri-template']

/** Schemas that ask for much work in few words, each by another loop of the compiler. */
export const hostileSchemas: Readonly<Record<string, JsonSchema>> = {
  'a pattern that backtracks on the examples of a format': {
    type: 'string',
    format: 'email',
    pattern: '^(?:a@b\\.co|(?:(?:(?:(?:.+)+)+)+)+(?!x)!)$',
  },
  'nothing, 2 * 10^9 times': { enum: ['a'], pattern: '^(?:){2000000000}$' },
  'nothing, 60,000 * 60,000 times': { type: 'string', pattern: '^(?=(?:(?:){60000}){60000})a$' },
  'many properties of characters': { type: 'string', pattern: `^[${properties.join('')}]$` },
  'forks that no character leaves': {
    type: 'string',
    pattern: `^(?=(?:[a-z](?:|){15000})*$)(?:${list(26, (nth) => String.fromCodePoint(97 + nth)).join('|')}){1900}$`,
  },
  'ways out of each state': {
    type: 'string',
    pattern: `^(?=x)(?:(?:${'|'.repeat(9000)})){9000}$`,
  },
  'a large set, 10,000 times': { enum: ['a'], pattern: `[${signs(6000)}]{10000}` },
  'large sets one after the other': { type: 'string', pattern: `^${'\\p{L}'.repeat(3000)}$` },
  'a large set on each of 1,900 edges': { type: 'string', pattern: '^(?=\\p{L}{1900}$)\\p{L}*$' },
  '2,500 sets that overlap': {
    type: 'string',
    pattern: `^(?=x)(?:${list(2500, (nth) => `[${String.fromCodePoint(0x4e00 + nth)}-${String.fromCodePoint(0x8000 + nth)}]`).join('')})$`,
  },
  'large automata that are left out': {
    anyOf: list(300, (nth) => ({ type: 'string', pattern: `^(?=x)a{19000}b{${nth}}` })),
  },
  'look-ahead in look-ahead': {
    enum: ['a'.repeat(3000)],
    pattern: '(?=a*(?=a*(?=a*(?=a*b))))c',
  },
  '1,000 multiples, again and again': object(1500, (nth) => ({
    type: 'integer',
    multipleOf: 7,
    minimum: nth,
    maximum: 6999 + nth,
  })),
  'long values, compared with each other': {
    enum: list(90, (nth) => [nth, ...list(2000, (one) => one)]),
    allOf: [{ enum: list(90, (nth) => [nth, ...list(2000, (one) => one)]) }],
  },
  'a long text, measured again and again': {
    const: 'x'.repeat(300_000),
    allOf: every(1000, { minLength: 1 }),
  },
  'a long list that is unique, again and again': {
    const: list(80_000, (nth) => nth),
    allOf: every(1000, { uniqueItems: true }),
  },
  'an object of 30,000, again and again': {
    const: named(30_000, (nth) => nth),
    allOf: every(1000, { minProperties: 1 }),
  },
  'a long way to what is referred to': {
    $defs: {
      x: list(1500, (nth) => nth).reduce<Schema>((inner) => ({ properties: { a: inner } }), {}),
      r: { $ref: `#/$defs/x${'/properties/a'.repeat(1500)}` },
    },
    anyOf: list(20, () => ({ allOf: every(20, { $ref: '#/$defs/r' }) })),
  },
  'what is not a long list': { not: { prefixItems: list(5000, () => true) } },
  'a long dependency, in 250 ways': {
    anyOf: list(250, () => ({ $ref: '#/$defs/d' })),
    $defs: { d: { dependentRequired: { a: list(20_000, (nth) => `q${nth}`) } } },
  },
  '300,000 mistakes': { required: list(300_000, () => 1) },
  '400,000 schemas that are none': { anyOf: list(400_000, () => 1) },
  'as many properties as there are': { ...object(1900, () => ({})), minProperties: 1900 },
  'half of the properties': { ...object(1900, () => ({})), minProperties: 950 },
  'at most all properties': { ...object(1900, () => ({})), maxProperties: 1900 },
  'lists in lists, 5,000 deep': nested(5000, (items) => ({ type: 'array', items })),
  'lists in lists, 500 deep': nested(500, (items) => ({ type: 'array', items })),
  'anyOf, 300 deep': nested(300, (one) => ({ anyOf: [one, { type: 'null' }] })),
  'not, 200 deep': nested(200, (one) => ({ not: one })),
  'if, 60 deep': nested(60, (one) => ({ if: one, then: { minLength: 1 }, else: { maxLength: 3 } })),
  'texts of texts, 6 deep': nested(6, (contentSchema) => ({
    type: 'string',
    contentMediaType: 'application/json',
    contentSchema,
  })),
  '20,000 values': { enum: list(20_000, (nth) => `v${nth}`) },
  'values that begin with each other': { enum: list(900, (nth) => 'a'.repeat(nth)) },
  'a value of 190,000 characters': { enum: ['x'.repeat(190_000)] },
  'other values in each of 500': object(500, (nth) => ({
    enum: list(30, (one) => `v${nth + one}`),
  })),
  '100 of 200 values, each once': {
    type: 'array',
    uniqueItems: true,
    minItems: 100,
    items: { enum: list(200, (nth) => `v${nth}`) },
  },
  '3,000 properties': object(3000, () => ({})),
  '1,000 texts': object(1000, () => ({ type: 'string' })),
  '3 to 9 of 300 texts': {
    ...object(300, () => ({ type: 'string' })),
    minProperties: 3,
    maxProperties: 9,
  },
  '50 of 100 texts': { ...object(100, () => ({ type: 'string' })), minProperties: 50 },
  '500 names and others': {
    ...object(500, () => ({ type: 'string' })),
    additionalProperties: { type: 'integer' },
  },
  '2,000 elements, each with a limit': {
    type: 'array',
    prefixItems: list(2000, (minimum) => ({ type: 'integer', minimum })),
  },
  '500 ranges': object(500, (nth) => ({
    type: 'integer',
    minimum: -nth * 7919,
    maximum: nth * 99991,
  })),
  'wide ranges': object(300, (nth) => ({
    type: 'number',
    minimum: -123_456_789.123 - nth,
    maximum: 987_654_321_987_654 - nth,
  })),
  'multiples in 100 properties': object(100, (nth) => ({ type: 'integer', multipleOf: 97 + nth })),
  'millions of elements': { type: 'array', minItems: 5e6 },
  'millions of characters': { type: 'string', maxLength: 5e6 },
  '100,000 of 100,000 of 100,000': nested(3, (items) => ({
    type: 'array',
    items,
    minItems: 100_000,
    maxItems: 100_000,
  })),
  '2,000 of 2,000 of 2,000': nested(3, (items) => ({ type: 'array', items, maxItems: 2000 })),
  'lengths in 100 properties': object(100, (nth) => ({ type: 'string', maxLength: 99_999 - nth })),
  '30 lengths to choose from': {
    anyOf: list(30, (nth) => ({ type: 'string', maxLength: 1000 + nth })),
  },
  '500 formats': object(500, (nth) => ({ type: 'string', format: formats[nth % 6] })),
  '500 formats and lengths': object(500, (nth) => ({
    type: 'string',
    format: formats[nth % 5],
    maxLength: 20 + nth,
  })),
  'a format and a pattern': text('^https://.*\\.com/.*$', { format: 'uri', maxLength: 200 }),
  'a pattern that no automaton can count': text('^(?=.*a.{18}$).*b.{18}$'),
  'repetitions of repetitions': text('^((a{1,40}b){1,40}c){1,40}$'),
  '200 words, 100 times': text(`^(${list(200, (nth) => `w${nth}`).join('|')}){100}$`),
  '500 that may be left out': text(`^${'a?'.repeat(500)}a{500}$`),
  'not a pattern that counts': { type: 'string', not: { pattern: '^(a|b){1,200}c?(a|b){1,200}$' } },
  'ten patterns at once': {
    type: 'string',
    allOf: list(10, (nth) => ({ pattern: letter(nth) })),
  },
  'a pattern in each of 300': object(300, (nth) => text(`^[a-z]{${nth}}-(foo|bar)+.*x$`)),
  '5 patterns of names': {
    type: 'object',
    patternProperties: Object.fromEntries(list(5, (nth) => [`${letter(nth)}.*z`, {}])),
  },
  '4,000 patterns of names': {
    enum: [1],
    patternProperties: Object.fromEntries(list(4000, (nth) => [`^p${nth}`, {}])),
  },
  'a cycle of references': chain(3, () => ({ $ref: '#/$defs/p0' })),
  'a cycle in allOf': { $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } },
  '2^30 of allOf': chain(30, (next) => ({ allOf: [next, next] })),
  '2^200 properties': chain(200, (next) => ({
    type: 'object',
    properties: { a: next, b: next },
    required: ['a', 'b'],
  })),
  '3^200 elements': chain(200, (next) => ({ type: 'array', prefixItems: [next, next, next] })),
  '120 that refer to each other': chain(120, () => ({
    anyOf: list(120, (nth) => ({
      type: 'object',
      properties: { k: { const: `k${nth}` }, v: { $ref: `#/$defs/p${nth}` } },
      required: ['k', 'v'],
    })),
  })),
  '2^8 alternatives of objects': {
    ...object(100, () => ({ type: 'string' })),
    allOf: list(8, (nth) => ({
      anyOf: [{ required: [`p${nth}`] }, { required: [`p${nth + 10}`] }],
    })),
  },
  '500 addresses, all used': {
    anyOf: list(500, (nth) => ({ $ref: `http://x/${nth}` })),
    $defs: named(500, (nth) => ({ $id: `http://x/${nth}`, type: 'string' })),
  },
}

const atoms = [
  'a',
  '.',
  '\\d',
  '[a-z]',
  '\\p{L}',
  '[^\\p{Lu}x]',
  '(?:)',
  '(?:|)',
  '(?:a|ab|)',
  '\\b',
]
const quantifiers = ['', '*', '+', '?', '{3}', '{0,40}', '{1900}', '{19000}', '{2000000000}']
const { pattern } = fc.letrec<{ pattern: string; part: string }>((tie) => ({
  pattern: fc
    .tuple(
      fc.constantFrom('', '^', '^(?=a)', '^(?!.*aa)'),
      fc.array(tie('part'), { minLength: 1, maxLength: 3 }),
      fc.constantFrom('', '$'),
    )
    .map(([start, parts, end]) => `${start}${parts.join('')}${end}`),
  part: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc
      .tuple(fc.constantFrom(...atoms), fc.constantFrom(...quantifiers))
      .map(([atom, times]) => (atom === '\\b' ? atom : atom + times)),
    fc
      .tuple(
        fc.array(tie('part'), { minLength: 1, maxLength: 3 }),
        fc.constantFrom('|', ''),
        fc.constantFrom(...quantifiers),
      )
      .map(([parts, between, times]) => `(?:${parts.join(between)})${times}`),
    tie('part').map((inner) => `(?=${inner})`),
  ),
}))

const repeated = (schema: Schema, count: number): fc.Arbitrary<JsonSchema> =>
  fc.constantFrom<Schema>(
    schema,
    { type: 'object', properties: named(count, () => schema), minProperties: count >> 1 },
    { anyOf: [...list(count >> 2, (nth) => ({ ...schema, minLength: nth })), { type: 'null' }] },
    { allOf: list(count >> 3, () => schema), enum: ['a'.repeat(count), 'ab', 1] },
    { type: 'object', propertyNames: schema, minProperties: 3 },
    { type: 'object', patternProperties: named(count >> 4, () => schema) },
    { not: schema },
    { if: schema, then: { maxLength: 9 }, else: { not: { allOf: [schema, schema] } } },
  )

/** Schemas of patterns in which all that costs much stands in all that repeats it. */
export const hostileSchema: fc.Arbitrary<JsonSchema> = fc
  .record({
    patterns: fc.array(pattern, { minLength: 1, maxLength: 2 }),
    format: fc.constantFrom(undefined, 'email', 'duration', 'ipv6'),
    maxLength: fc.constantFrom(undefined, 3, 90, 99_999),
    count: fc.constantFrom(16, 300, 1000),
  })
  .chain(({ patterns: [one = '', other], format, maxLength, count }) =>
    repeated(
      {
        type: 'string',
        pattern: one,
        ...(other === undefined ? {} : { allOf: [{ pattern: other }] }),
        ...(format === undefined ? {} : { format }),
        ...(maxLength === undefined ? {} : { maxLength }),
      },
      count,
    ),
  )
