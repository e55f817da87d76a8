/* oxlint-disable unicorn/no-thenable -- it is a keyword of JSON schema's */
import type { JsonSchema } from '@cllm/core'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import t from 'tap'
import { z } from 'zod'
import { GrammarTexts, seeded } from './grammar-texts.js'

type Schema = Exclude<JsonSchema, boolean>

const digit = { type: 'integer', minimum: 0, maximum: 9 } as const
const word = { type: 'string', maxLength: 5 } as const
const object = (properties: Schema, more: Schema = {}): Schema => ({
  type: 'object',
  properties,
  ...more,
})

/** Schemas, with values that their grammars allow and values that they do not. */
const cases: Readonly<Record<string, readonly [Schema, yes: unknown[], no: unknown[]]>> = {
  'if, then and else': [
    object(
      { country: { enum: ['US', 'DE'] }, zip: word },
      {
        required: ['country'],
        if: { properties: { country: { const: 'US' } } },
        then: { properties: { zip: { pattern: '^\\d{5}$' } }, required: ['zip'] },
        else: { properties: { zip: { maxLength: 2 } } },
      },
    ),
    [{ country: 'US', zip: '12345' }, { country: 'DE' }, { country: 'DE', zip: 'ab' }],
    [{ country: 'US' }, { country: 'US', zip: 'ab' }, { country: 'DE', zip: '12345' }],
  ],
  'an if for each of many kinds': [
    object(
      { kind: { enum: Array.from({ length: 12 }, (_, nth) => `k${nth}`) }, value: {} },
      {
        required: ['kind', 'value'],
        additionalProperties: false,
        allOf: Array.from({ length: 12 }, (_, nth) => ({
          if: { properties: { kind: { const: `k${nth}` } } },
          then: { properties: { value: { const: nth } } },
        })),
      },
    ),
    [
      { kind: 'k0', value: 0 },
      { kind: 'k11', value: 11 },
    ],
    [{ kind: 'k0', value: 1 }, { kind: 'k11' }],
  ],
  'if without then': [object({ a: digit }, { if: { required: ['a'] } }), [{}, { a: 1 }], []],
  'if of numbers': [
    {
      type: 'integer',
      minimum: -9,
      maximum: 9,
      if: { minimum: 0 },
      then: { multipleOf: 5 },
      else: { multipleOf: 3 },
    },
    [0, 5, -3],
    [3, -5],
  ],
  'not a value': [{ ...word, not: { enum: ['a', 'b"'] } }, ['', 'ab', 'b'], ['a', 'b"']],
  'not numbers': [{ ...digit, not: { enum: [1, 3] } }, [0, 2, 9], [1, 3]],
  'not these types': [
    { not: { type: ['object', 'array', 'integer'] } },
    ['x', null, true],
    [1, {}, []],
  ],
  'not a boolean': [
    { not: { enum: [true, null, {}, []] }, type: ['boolean', 'null'] },
    [false],
    [true, null],
  ],
  'not both': [
    object({ a: digit, b: digit }, { not: { required: ['a', 'b'] } }),
    [{}, { a: 1 }, { b: 1 }],
    [{ a: 1, b: 1 }],
  ],
  'not a property': [
    object({ a: digit }, { required: ['a'], not: { properties: { a: { const: 3 } } } }),
    [{ a: 4 }],
    [{ a: 3 }],
  ],
  'not a pattern': [{ ...word, not: { pattern: '^a|b$' } }, ['', 'ba'], ['a', 'ab', 'cb']],
  'not any of these': [
    { ...digit, not: { anyOf: [{ const: 3 }, { exclusiveMinimum: 6 }] } },
    [0, 6],
    [3, 7],
  ],
  'not one of these, nor all of those': [
    {
      ...digit,
      allOf: [
        { not: { oneOf: [{ const: 3 }, { const: 4 }] } },
        { not: { allOf: [{ maximum: 7 }, { minimum: 6 }] } },
      ],
    },
    [5, 8],
    [3, 4, 6, 7],
  ],
  'not not': [{ ...digit, not: { not: { maximum: 3 } } }, [0, 3], [4]],
  'not what is referred to': [
    { ...digit, not: { $ref: '#/$defs/low' }, $defs: { low: { maximum: 4 } } },
    [5],
    [4],
  ],
  'not if': [
    { ...digit, not: { if: { maximum: 4 }, then: { minimum: 2 }, else: { maximum: 7 } } },
    [0, 1, 8],
    [2, 4, 5, 7],
  ],
  'not so long': [
    {
      anyOf: [
        { type: 'string', maxLength: 6, not: { minLength: 2 } },
        { type: 'array', items: digit, maxItems: 4, not: { maxItems: 1 } },
        { type: 'object', additionalProperties: digit, not: { minProperties: 2 } },
      ],
    },
    ['a', [1, 2], { a: 1 }],
    ['ab', [1], { a: 1, b: 2 }],
  ],
  'not such elements': [
    {
      type: 'array',
      items: digit,
      maxItems: 3,
      allOf: [{ not: { contains: { const: 1 } } }, { not: { items: { minimum: 5 } } }],
    },
    [[2], [0, 3]],
    [[1], [5], []],
  ],
  'not such a beginning': [
    { type: 'array', items: digit, maxItems: 3, not: { prefixItems: [{ const: 1 }, true] } },
    [[2], [2, 3]],
    [[1], []],
  ],
  'not what depends': [
    object(
      { a: digit, b: digit },
      { not: { dependentRequired: { a: ['b'] }, dependentSchemas: { b: { maxProperties: 1 } } } },
    ),
    [{ a: 1 }, { a: 1, b: 2 }],
    [{}, { b: 1 }],
  ],
  'one of two ranges': [
    { oneOf: [digit, { type: 'integer', minimum: 5, maximum: 12 }] },
    [0, 4, 10, 12],
    [5, 9, 13],
  ],
  'one of two properties': [
    object({ a: digit, b: digit }, { oneOf: [{ required: ['a'] }, { required: ['b'] }] }),
    [{ a: 1 }, { b: 1 }],
    [{}, { a: 1, b: 1 }],
  ],
  'what depends on a property': [
    object(
      { card: digit, address: word, zip: word },
      {
        dependentRequired: { card: ['address'] },
        dependentSchemas: {
          zip: { properties: { address: { minLength: 2 } }, required: ['address'] },
        },
      },
    ),
    [{}, { address: 'x' }, { card: 1, address: 'x' }, { address: 'xy', zip: '1' }],
    [{ card: 1 }, { address: 'x', zip: '1' }],
  ],
  'dependencies of old drafts': [
    object(
      { a: digit, b: digit, c: digit },
      { dependencies: { a: ['b'], c: { properties: { b: { minimum: 5 } } } } },
    ),
    [{}, { a: 1, b: 1 }, { b: 5, c: 1 }],
    [{ a: 1 }, { b: 1, c: 1 }],
  ],
  'much that depends': [
    object(
      { a: digit, b: digit },
      { dependentRequired: { a: ['b'], c: ['b'], d: ['b'], e: ['b'], f: ['b'] } },
    ),
    [{ a: 1, b: 1 }],
    [{ a: 1 }],
  ],
  'names by patterns': [
    {
      type: 'object',
      patternProperties: { '^s': word, '^n': digit },
      additionalProperties: { type: 'boolean' },
      maxProperties: 3,
    },
    [{ s: 'x', n: 1, b: true }, {}],
    [{ s: 1 }, { n: 'x' }, { b: 1 }],
  ],
  'names by a pattern beside one of them': [
    object(
      { s_name: { type: 'string', minLength: 2, maxLength: 4 } },
      { patternProperties: { '^s_': word }, additionalProperties: false, maxProperties: 3 },
    ),
    [{ s_name: 'ab', s_: 'x' }, { s_x: '' }],
    [{ s_name: 'a' }, { x: '' }],
  ],
  'names beside one that is named': [
    object(
      { id: digit },
      { propertyNames: { maxLength: 3 }, additionalProperties: digit, maxProperties: 3 },
    ),
    [{ id: 1, abc: 2 }],
    [{ abcd: 1 }],
  ],
  'names of both sorts': [
    {
      type: 'object',
      propertyNames: { anyOf: [{ enum: ['a"', 'b'] }, { pattern: '^x\\d$' }, { type: 'array' }] },
      additionalProperties: digit,
      maxProperties: 2,
    },
    [{ 'a"': 1 }, { x1: 1 }],
    [{ c: 1 }, { x: 1 }],
  ],
  'at least as many': [
    object(
      { name: word, num: digit },
      { additionalProperties: { type: 'boolean' }, minProperties: 4, maxProperties: 5 },
    ),
    [],
    [{ name: 'x', num: 1, a: true }],
  ],
  'at least as many of such names': [
    {
      type: 'object',
      propertyNames: { minLength: 2, maxLength: 4 },
      additionalProperties: digit,
      minProperties: 2,
      maxProperties: 3,
    },
    [{ ab: 1, xy: 1 }],
    [{ ab: 1 }],
  ],
  'optional ones and others, two at least': [
    object({ a: digit, b: digit }, { additionalProperties: digit, minProperties: 2 }),
    [
      { a: 1, b: 2 },
      { b: 1, x: 2 },
    ],
    [{ x: 1 }, { a: 1 }],
  ],
  'one other, and no second one of its name': [
    object({ a: digit }, { additionalProperties: digit, minProperties: 2 }),
    [{ a: 1, xb: 2 }],
    [{ a: 1 }, { xb: 1 }],
  ],
  'URLs as validators of `url` take them': [
    { type: 'string', format: 'url' },
    ['https://a-b.example.com:8080/c/d?e=f#g', 'http://a.co'],
    ['http://a.co?b', 'http://a.co#b', 'http://localhost/', 'http://127.0.0.1/'],
  ],
  'alternatives that are not told by a property whose name is a pattern': [
    {
      oneOf: [
        object({ ref: word }, { required: ['ref'], additionalProperties: false }),
        { type: 'object', patternProperties: { '^[a-z]{3}$': word }, additionalProperties: false },
      ],
    },
    [{}, { abc: 'x' }],
    [{ ref: 'x' }],
  ],
  'alternatives inside themselves': [
    {
      $ref: '#/$defs/test',
      $defs: {
        test: {
          oneOf: [
            object({ not: { $ref: '#/$defs/test' } }, { required: ['not'] }),
            object({ left: { $ref: '#/$defs/test' }, is: digit }, { required: ['left', 'is'] }),
            object({ text: word }, { required: ['text'] }),
          ],
        },
      },
    },
    [{ text: 'a' }, { not: { text: 'a' } }, { left: { not: { text: 'a' } }, is: 1 }],
    [{}, { not: { not: {} } }, { left: { is: 1 }, is: 1 }],
  ],
  'alternatives that hold each other, told by their kinds': [
    {
      $ref: '#/$defs/a',
      $defs: {
        a: {
          oneOf: [
            object({ b: { $ref: '#/$defs/b' }, kind: { const: 1 } }, { required: ['b', 'kind'] }),
            object({ kind: { const: 2 } }, { required: ['kind'] }),
          ],
        },
        b: {
          oneOf: [
            { type: 'null' },
            object({ a: { $ref: '#/$defs/a' }, c: digit }, { required: ['a'] }),
          ],
        },
      },
    },
    [{ kind: 2 }, { b: null, kind: 1 }, { b: { a: { kind: 2 } }, kind: 1 }],
    [{ b: { kind: 2 }, kind: 1 }, { kind: 1 }],
  ],
  'alternatives inside themselves that cannot be written': [
    {
      type: 'array',
      items: { anyOf: [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/b' }, digit] },
      maxItems: 2,
      $defs: {
        a: object(
          { all: { type: 'array', items: { $ref: '#/$defs/a' } }, text: { pattern: '(a)\\1' } },
          { required: ['text'] },
        ),
        b: object({ next: { $ref: '#/$defs/b' }, none: false }, { required: ['none'] }),
      },
    },
    [[1], [2, 3]],
    [[{}], [{ all: [] }], [{ next: {} }]],
  ],
  'names that are listed, and match a pattern': [
    {
      type: 'object',
      propertyNames: { enum: ['xa', 'b'] },
      patternProperties: { '^x': digit },
      additionalProperties: { type: 'boolean' },
    },
    [{ xa: 1, b: true }],
    [{ xa: true }, { b: 1 }],
  ],
  'names by a pattern that another schema does not allow': [
    {
      type: 'object',
      patternProperties: { '^x': digit, '^y': digit },
      maxProperties: 2,
      allOf: [{ patternProperties: { '^y': true }, additionalProperties: false }],
    },
    [{}, { y1: 2 }],
    [{ x1: 1 }, { y1: 2, x: 1 }],
  ],
  'many, more than can be counted': [
    object(
      { text: { type: 'string', maxLength: 1e7 }, list: { items: digit, maxItems: 1e9 } },
      { maxProperties: 1e12, additionalProperties: word },
    ),
    [{ text: 'abc', list: [1, 2] }],
    [{ text: 1 }],
  ],
  'nothing else, merged': [
    {
      allOf: [object({ a: digit }, { required: ['a'] })],
      properties: { b: { type: 'boolean' } },
      unevaluatedProperties: false,
    },
    [{ b: true, a: 1 }, { a: 1 }],
    [{ a: 1, c: 1 }],
  ],
  'nothing at all': [{ type: 'object', unevaluatedProperties: false }, [{}], [{ a: 1 }]],
  'others of a kind': [
    object(
      { a: digit },
      { patternProperties: { '^x': digit }, unevaluatedProperties: { type: 'boolean' } },
    ),
    [{ a: 1, b: true }, { xy: 1 }],
    [{ b: 1 }],
  ],
  'other elements': [
    {
      type: 'array',
      prefixItems: [digit],
      minItems: 1,
      maxItems: 3,
      unevaluatedItems: { type: 'null' },
    },
    [[1], [1, null]],
    [[], [1, 1]],
  ],
  'other elements than contained ones': [
    { type: 'array', contains: { const: 1 }, unevaluatedItems: { type: 'null' }, maxItems: 3 },
    [[1], [1, null], [1, 1]],
    [[null], [1, 2]],
  ],
  'what contains': [
    { type: 'array', items: digit, contains: { const: 7 }, maxItems: 3 },
    [[7], [7, 1]],
    [[], [1]],
  ],
  'contains at most': [
    { type: 'array', items: digit, contains: { minimum: 5 }, minContains: 2, maxContains: 2 },
    [[5, 6]],
    [[5], [5, 6, 7]],
  ],
  'each integer once': [
    {
      type: 'array',
      items: { type: 'integer', minimum: -1, maximum: 4 },
      uniqueItems: true,
      minItems: 2,
    },
    [
      [-1, 4],
      [0, 1, 2],
    ],
    [[1], [1, 1]],
  ],
  'what anchors are in groups': [
    { type: 'string', pattern: '(^$)|(^[a-c]+$)|(^x)', maxLength: 5 },
    ['', 'abc', 'xz'],
    ['d', 'ax'],
  ],
  'whole words': [
    { type: 'string', pattern: '\\bfoo\\b', maxLength: 9 },
    ['foo', 'a foo', '-foo-'],
    ['food', 'afoo', ''],
  ],
  'not inside words': [{ type: 'string', pattern: '^a\\Bb' }, ['ab'], ['a', 'b']],
  'letters of all languages': [
    { type: 'string', pattern: '^[\\p{Lu}\\p{Script=Greek}]\\p{Ll}{0,3}\\P{L}$' },
    ['Äé1', 'ω!'],
    ['ä1', 'Aa', '𐐀𐐀1'],
  ],
  'values that look ahead': [
    { enum: ['ab1', 'ab', '12'], type: 'string', pattern: '^(?=.*\\d)[a-z]+' },
    ['ab1'],
    ['ab', '12'],
  ],
  'an anchor': [{ $ref: '#node', $defs: { x: { $anchor: 'node', ...digit } } }, [1], ['a']],
  'a dynamic anchor': [
    {
      $dynamicAnchor: 'n',
      ...object(
        { v: digit, next: { $dynamicRef: '#n' } },
        { required: ['v'], additionalProperties: false },
      ),
    },
    [{ v: 1, next: { v: 2 } }],
    [{ v: 1, next: 2 }],
  ],
  'an address': [
    {
      $id: 'https://example.com/root',
      type: 'array',
      maxItems: 2,
      items: { $ref: 'item#/$defs/n' },
      $defs: { i: { $id: 'item', $defs: { n: digit } } },
    },
    [[1]],
    [['a']],
  ],
  'texts of values': [
    {
      $defs: { n: object({ 'a"b': { enum: ['\\', 'é"'] } }, { required: ['a"b'] }) },
      type: 'string',
      contentMediaType: 'application/json',
      contentSchema: { anyOf: [{ $ref: '#/$defs/n' }, { type: 'array', items: digit }] },
    },
    ['[1, 2]', '{"a\\"b":"\\\\"}', '{"a\\"b":"é\\""}'],
    ['', '[a]', '{}', '"x"'],
  ],
  'texts of any value, and what is coded': [
    object(
      {
        any: { type: 'string', contentMediaType: 'application/json; charset=utf-8' },
        long: { type: 'string', contentMediaType: 'application/json', maxLength: 3 },
        coded: { type: 'string', contentEncoding: 'base64' },
        hex: { type: 'string', contentEncoding: 'base16', contentMediaType: 'application/json' },
        other: { type: 'string', contentEncoding: 'quoted-printable', maxLength: 3 },
      },
      { required: ['coded'] },
    ),
    [
      { any: 'null', coded: 'ab==' },
      { long: 'abc', coded: '', hex: '0f', other: 'x' },
    ],
    [{ any: '[', coded: '' }, { coded: 'a' }],
  ],
  'a limit that is not reached': [
    { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 100.5 },
    [0.5, 9.99, 100, 100.4, 12],
    [0, 100.5, -1, 101],
  ],
  'limits with more decimals than are told apart': [
    { type: 'number', minimum: -Math.PI, maximum: Math.PI },
    [0.5, 3.1, -2.0625, 3],
    [3.15, -3.2, 4],
  ],
  'numbers nearer to zero than limits tell': [
    { type: 'number', minimum: -1, maximum: 1 },
    [-0.05, 0.05, -0.000_25, -1, -0.999],
    [-1.01, 1.01],
  ],
  'limits beyond all that is written': [
    { type: 'number', minimum: 0.01, maximum: Number.MAX_VALUE },
    [12.99, 0.01, 0.015, 123_456_789.25],
    [0, 0.009, -1],
  ],
  'a limit of as many digits as are written': [
    { type: 'number', minimum: 0.5, maximum: 999_999_999_999_999 },
    [0.5, 12.345_678, 123_456_789.25, 999_999_999_999_999],
    [0.4],
  ],
  'a limit that is nearly nothing': [
    { type: 'number', minimum: 1e-9, maximum: 1 },
    [0.001, 0.00025, 0.5, 1],
    [0, 1.5, -0.5],
  ],
  'an open object around alternatives': [
    {
      type: 'object',
      additionalProperties: digit,
      maxProperties: 2,
      oneOf: [object({ a: digit }, { required: ['a'] }), object({ b: digit }, { required: ['b'] })],
    },
    [{ a: 1 }, { b: 1 }],
    [{}, { a: 1, b: 1 }],
  ],
  'alternatives of which one asks for nothing': [
    { oneOf: [object({ a: digit }, { required: ['a'] }), object({ b: digit })] },
    [{ b: 1 }, {}],
    [{ a: 1 }],
  ],
  'alternatives told by one of several values': [
    {
      oneOf: [
        object({ k: { enum: ['a', 'b'] }, v: digit }, { required: ['k'] }),
        object({ k: { anyOf: [{ const: 'c' }, { const: 'd' }] } }, { required: ['k'] }),
      ],
    },
    [{ k: 'b', v: 1 }, { k: 'd' }],
    [{ k: 'e' }, { v: 1 }],
  ],
  'very many kinds': [
    {
      oneOf: Array.from({ length: 60 }, (_, nth) =>
        object({ kind: { const: nth }, [`v${nth}`]: digit }, { required: ['kind'] }),
      ),
    },
    [{ kind: 7, v7: 1 }, { kind: 59 }],
    [{ kind: 60 }, { kind: 7, v8: 1 }],
  ],
  'lists that are merged': [
    {
      type: 'array',
      prefixItems: [digit],
      allOf: [
        { prefixItems: [true, { const: 'x' }] },
        { prefixItems: [digit, true, true], items: false },
      ],
      unevaluatedItems: false,
    },
    [[1, 'x']],
    [
      [1, 1],
      ['x', 'x'],
    ],
  ],
  'values that are listed, with all that schemas can say': [
    {
      enum: [
        { a: 1, list: [1, 'x'], s: 'abc' },
        { a: 2, list: [1, 'x'], s: 'abc' },
        { a: 1, list: [2, 2], s: 'abc' },
        { a: 1, list: [1, 'x', 3], s: 'abc' },
        { a: 1, list: [1, 'x'], s: 'ab' },
        { a: 1, list: [1, 'x'], s: 'abc', n: 1 },
        { a: 1, list: [1, 'x'], s: 'abc', m: 7 },
        { a: 1, list: [1, 'x'], s: 'abc', p1: 'no' },
        { a: 1, list: [1, 'x'], s: 'abc', LONG: 1 },
        { a: 1, s: 'abc' },
        { a: 1, list: [], s: 'abc' },
        [1],
        'x',
        null,
      ],
      type: ['object', 'null'],
      allOf: [{ required: ['a', 'list'] }, { anyOf: [{ maxProperties: 4 }, { type: 'null' }] }],
      oneOf: [{ properties: { a: { const: 1 } } }, { properties: { a: { const: 3 } } }],
      not: { required: ['m'], properties: { m: { multipleOf: 7 } } },
      if: { required: ['n'] },
      then: false,
      else: { minProperties: 3 },
      propertyNames: { maxLength: 4, pattern: '^[a-z0-9]+$' },
      patternProperties: { '^p': digit },
      properties: {
        a: { type: 'integer', minimum: 1, exclusiveMaximum: 3 },
        s: { type: 'string', minLength: 3, format: 'unknown' },
        list: {
          prefixItems: [{ const: 1 }],
          items: { type: 'string' },
          uniqueItems: true,
          contains: { type: 'string' },
          minItems: 2,
          maxItems: 2,
        },
      },
      dependentRequired: { s: ['list'] },
      dependentSchemas: { s: { $ref: '#/$defs/three' } },
      additionalProperties: digit,
      $defs: { three: { minProperties: 3 } },
    },
    [{ a: 1, list: [1, 'x'], s: 'abc' }],
    [null, 'x', [1]],
  ],
  'numbers of Rust': [
    object(
      {
        a: { type: 'number', format: 'uint8' },
        b: { type: ['integer', 'null'], format: 'uint64' },
        c: { type: 'string', format: 'uint8', maxLength: 2 },
        d: { type: 'integer', format: 'int16', minimum: 5 },
      },
      { required: ['a', 'b'] },
    ),
    [
      { a: 255, b: null, c: 'x' },
      { a: 0, b: 7, d: 32_767 },
    ],
    [
      { a: 256, b: 1 },
      { a: 1.5, b: 1 },
      { a: 1, b: -1 },
      { a: 1, b: 1, d: 4 },
    ],
  ],
  'anchors by $id, and names of schemas': [
    {
      $ref: '#old',
      allOf: [{ $ref: 'tree' }],
      $defs: {
        o: { $id: '#old', type: 'object' },
        t: {
          $id: 'tree',
          ...object({ v: { $ref: '#/$defs/n' }, next: { $ref: 'tree' } }, { required: ['v'] }),
        },
        n: digit,
      },
    },
    [{ v: 1 }, { v: 1, next: { v: 2 } }],
    [{}, { v: 'x' }],
  ],
  'integers of OpenAPI': [
    object(
      {
        a: { type: 'integer', format: 'int32' },
        b: { type: 'integer', format: 'int32', maximum: 3 },
        c: { type: 'integer', format: 'int32', nullable: true },
      },
      { required: ['a'] },
    ),
    [{ a: 2_147_483_647 }, { a: -1, b: 3 }, { a: 1, c: null }],
    [{ a: 2_147_483_648 }, { a: 1, b: 4 }],
  ],
  formats: [
    object(
      Object.fromEntries(
        [
          'uri-template',
          'relative-json-pointer',
          'json-pointer-uri-fragment',
          'regex',
          'iso-time',
          'iso-date-time',
          'byte',
        ].map((format) => [format, { type: 'string', format }]),
      ),
    ),
    [{ regex: '^a+\\d$' }],
    [{ regex: '(' }],
  ],
  'two patterns, of which one repeats a character, and a length': [
    {
      type: 'string',
      allOf: [{ pattern: '^[a-z]+$' }, { pattern: '^a' }],
      minLength: 3,
      maxLength: 5,
    },
    ['abc', 'abcde'],
    ['a', 'ab', 'abcdef'],
  ],
  'other names with a pattern and a length': [
    object(
      { id: digit },
      { propertyNames: { pattern: '^[a-z]+$', maxLength: 4 }, additionalProperties: digit },
    ),
    [{ id: 1, abcd: 2 }],
    [{ abcde: 1 }],
  ],
  'two formats': [
    { type: 'string', allOf: [{ format: 'uuid' }, { format: 'uuid4' }] },
    ['123e4567-e89b-42d3-a456-426614174000'],
    ['123e4567-e89b-12d3-a456-426614174000'],
  ],
  'addresses of a length': [
    object({
      link: { type: 'string', format: 'uri', maxLength: 100 },
      brief: { type: 'string', format: 'url', maxLength: 20 },
    }),
    [
      { link: 'https://www.verylongcompanyname.co.uk/a-b/c_d.html?q=a,b&r=c@d#e' },
      { brief: 'https://a.com/a?b=c' },
    ],
    [{ link: `https://example.com/${'a'.repeat(90)}` }, { brief: 'https://a.com/a/b/c/d/e' }],
  ],
  'addresses as people write them': [
    object({
      mail: { type: 'string', format: 'email' },
      short: { type: 'string', format: 'email', maxLength: 60 },
      both: { type: 'string', format: 'email', pattern: z.toJSONSchema(z.email()).pattern! },
      host: { type: 'string', format: 'hostname' },
      url: { type: 'string', format: 'uri', minLength: 1, maxLength: 2083 },
      link: { type: 'string', format: 'uri', maxLength: 255 },
      start: { type: 'string', format: 'uri', pattern: '^https://.*', maxLength: 500 },
      listed: { format: 'uri', enum: ['http://localhost:3000/a?b=c#d', 'https://a.b.example.com'] },
    }),
    [
      { mail: 'first.middle.last@mail.verylongcompanyname.co.uk' },
      { mail: 'Ann_Lee+x@Example.online' },
      { short: 'first.middle.last@mail.longcompanyname.co.uk' },
      { both: 'a.very.long.name@mail.verylongcompanyname.co.uk' },
      { host: 'a.b.verylongcompanyname.cloud' },
      { url: 'https://github.com/a/b/blob/main/src/resources/chat/completions.ts#L10' },
      { url: 'https://de.wikipedia.org/wiki/K%C3%B6ln?action=edit&section=1' },
      { url: 'http://localhost:3000' },
      { url: 'http://127.0.0.1:8080/v1/models' },
      { link: 'https://example.com?q=a' },
      { link: 'https://www.example.co.uk/a-b/c_d.html?q=a,b&r=c@d#e' },
      { start: 'https://example.com/a?b=c' },
      { listed: 'http://localhost:3000/a?b=c#d' },
    ],
    [
      { mail: 'a..b@example.com' },
      { mail: 'a@b.test' },
      { both: 'a@b' },
      { url: 'https://example.com/a b' },
      { start: 'http://example.com/' },
    ],
  ],
}

t.test('texts of grammars are valid, and no narrower than they need to be', (t) => {
  const seeds = 40
  for (const [name, [schema, yes, no]] of Object.entries(cases)) {
    const ajv = addFormats.default(
      new Ajv2020({ strict: false, ownProperties: true, multipleOfPrecision: 6 }),
    )
    // what other drafts say is judged by the values alone
    const validate = name.startsWith('anchors by') ? undefined : ajv.compile(schema)
    const isValid = (value: unknown) => validate === undefined || validate(value)
    const texts = new GrammarTexts(schema)
    for (const value of yes) {
      t.ok(isValid(value), `${name}: ${JSON.stringify(value)} is valid`)
      t.ok(texts.allows(JSON.stringify(value)), `${name}: ${JSON.stringify(value)}`)
    }
    for (const value of no) {
      t.notOk(texts.allows(JSON.stringify(value)), `${name}: not ${JSON.stringify(value)}`)
    }
    let whole = 0
    for (let seed = 0; seed < seeds; seed++) {
      const text = texts.draw(seeded(seed))
      if (text === undefined) continue
      whole++
      if (!isValid(JSON.parse(text)))
        t.fail(`${name}: ${text}: ${ajv.errorsText(validate?.errors)}`)
    }
    t.ok(whole > seeds / 4, `${name}: ${whole} of ${seeds} ended`)
  }
  t.end()
})

t.test('strings that are trimmed are long enough', (t) => {
  for (const minLength of [1, 2, 5]) {
    const texts = new GrammarTexts({ type: 'string', minLength, maxLength: 8 })
    for (let seed = 0; seed < 60; seed++) {
      const text = texts.draw(seeded(seed))
      const { length } = Array.from((JSON.parse(text ?? '"xxxxx"') as string).trim())
      if (length < minLength) t.fail(`${text} of ${minLength}`)
    }
    t.notOk(texts.allows('" abcde"'))
    t.ok(texts.allows(JSON.stringify('a"\\"'.repeat(2))), 'escapes are no spaces')
  }
  t.end()
})

t.test('patterns with escapes that need not be, where all read them alike', (t) => {
  const texts = new GrammarTexts({ type: 'string', pattern: '^\\d\\:[\\w-.]\\_{2}$' })
  t.ok(texts.allows('"1:-__"'))
  t.notOk(texts.allows('"1\\\\:-__"'))
  for (const pattern of [
    '\\A\\:',
    '^(a)\\_\\1',
    '\\p\\:',
    '\\u{61}\\:',
    '^\\:{,3}',
    '\\:\u{1f600}',
    '\\:(',
  ]) {
    t.throws(() => new GrammarTexts({ type: 'string', pattern }), { code: 'invalid_constraint' })
  }
  t.end()
})

t.test('formats that validators of Python know', (t) => {
  const kept: Readonly<Record<string, RegExp>> = {
    'multi-host-uri': /^postgresql:\/\/[^/]+\/\w+$/,
    color: /^#[0-9a-f]{6}$/,
    uuid7: /^[0-9a-f]{8}-[0-9a-f]{4}-7/,
    regex: /^.+$/,
  }
  for (const [format, expected] of Object.entries(kept)) {
    const texts = new GrammarTexts({ type: 'string', format, minLength: 1 })
    for (let seed = 0; seed < 20; seed++) {
      const text = JSON.parse(texts.draw(seeded(seed)) ?? 'null') as string | null
      if (text !== null) t.match(text, expected, format)
    }
  }
  const size = { type: 'string', pattern: '^\\s*(\\d*\\.?\\d+)\\s*(\\w+)?' }
  const texts = new GrammarTexts({ anyOf: [size, { type: 'integer', minimum: 0 }] })
  t.ok(texts.allows('12'))
  t.notOk(texts.allows('"12 zz"'), 'units that pydantic may not know are not written')
  t.ok(new GrammarTexts({ anyOf: [size] }).allows('"12 zz"'), 'unless there is nothing else')
  const spans = new GrammarTexts({ type: 'string', format: 'duration' })
  t.ok(['"P1DT2H3M4S"', '"PT2H3M"', '"PT4S"'].every((text) => spans.allows(text)))
  t.notOk(spans.allows('"PT2H4S"'), 'RFC 3339 asks for the minutes between')
  t.end()
})

t.test('JSON of one kind, or of another one with marks around it', (t) => {
  const call = object({ a: { $ref: '#/$defs/d' } }, { required: ['a'], $defs: { d: digit } })
  const around = { schema: call, before: '<c>', closing: '</c>', next: '<c>' }
  const answer = object({ b: { $ref: '#/$defs/d' } }, { required: ['b'], $defs: { d: word } })
  const grammar = new GrammarTexts(answer, { or: around })
  for (const text of ['{"b":"x"}', '<c>{"a":1}</c>', '<c>{"a":1}</c><c> {"a":2}</c>']) {
    t.ok(grammar.allows(text), text)
  }
  for (const text of ['{"a":1}', '{"b":1}', '<c>{"b":"x"}</c>', '{"b":"x"}<c>{"a":1}</c>', '']) {
    t.notOk(grammar.allows(text), text)
  }
  const third = new GrammarTexts(answer, { or: { ...around, or: { schema: digit, before: 'n' } } })
  t.ok(['{"b":"x"}', '<c>{"a":1}</c>', 'n7'].every((text) => third.allows(text)))
  t.notOk(third.allows('n{"a":1}'))
  t.end()
})
