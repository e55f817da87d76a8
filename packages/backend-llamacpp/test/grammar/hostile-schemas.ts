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
    // oxlint-disable-next-line unicorn/no-thenable -- it is a keyword of JSON schema's
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
