import type { JsonSchema } from '@cllm/core'
import t from 'tap'
import { CountedGrammar } from '../../../src/grammar/budget/counted-grammar.js'
import { fewReadings } from '../../../src/grammar/budget/few-readings.js'
import { parseGbnf } from '../../../src/grammar/gbnf/gbnf-parser.js'
import { jsonGbnf, schemaToGbnf } from '../../../src/grammar/schema/schema-to-gbnf.js'

const readings = (gbnf: string) => fewReadings(parseGbnf(gbnf, 'root'))
const string = { type: 'string' } as const
const members = (count: number): JsonSchema =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`member${index}`, string]))

t.test('ordinary schemas have few readings', (t) => {
  const kind = (name: string, other: JsonSchema) => ({
    type: 'object',
    properties: { kind: { const: name }, value: other },
    required: ['kind', 'value'],
  })
  const schemas: Readonly<Record<string, JsonSchema>> = {
    anything: {},
    'free strings': { properties: { a: string, b: string }, required: ['a'] },
    'a long string': { type: 'string', maxLength: 200 },
    'nested arrays': { items: { items: { type: 'integer', minimum: 0, maximum: 120 } } },
    'a nullable number': { anyOf: [{ type: 'number', minimum: -1.5 }, { type: 'null' }] },
    'a union of kinds': { items: { anyOf: [kind('a', string), kind('ab', { type: 'number' })] } },
    'a union that shares a string': {
      anyOf: [
        { properties: { a: string, b: string }, required: ['a', 'b'] },
        { properties: { a: string, c: string }, required: ['a', 'c'], additionalProperties: false },
      ],
    },
    '240 optional members': { properties: members(240) },
    dates: { type: 'string', format: 'date-time' },
    values: { enum: Array.from({ length: 900 }, (_, index) => `value ${index}`) },
  }
  for (const [name, schema] of Object.entries(schemas)) {
    const found = readings(schemaToGbnf(schema))
    t.ok(found !== undefined && found <= 300, `${name}: ${found}`)
  }
  t.ok(readings(jsonGbnf())! <= 20)
  t.end()
})

t.test('grammars whose readings may multiply are not among them', (t) => {
  for (const grammar of [
    '(" "+)* "x"',
    '(" " | " ")* "x"',
    '([^b] | [^b] | [^b])*',
    `${'"a"? '.repeat(40)} "a"{40} "b"`,
    's\ns ::= "(" s ")" | "(" s "]" | ""',
    '[a-z ]{30} ([a-z ] | [a-z ])*',
    '"a"* "a"* "b"',
    'x "c"\nx ::= y | "a" x\ny ::= "a"* "b"',
    Array.from({ length: 50 }, (_, index) => `[a-z]* "${index}"`).join(' | '),
    '<[5]> | <[6]>',
  ]) {
    t.equal(readings(`root ::= ${grammar}`), undefined, grammar)
  }
  t.end()
})

t.test('the tree of the vocabulary is built only for grammars that need it', (t) => {
  const trie = () => {
    throw new Error('it was built')
  }
  const literals = Array.from({ length: 900 }, (_, index) => `"literal ${index}"`).join(' | ')
  CountedGrammar.parse(jsonGbnf(), 'root', 150_000, trie)
  CountedGrammar.parse(`root ::= ${literals}`, 'root', 32_000, trie)
  const ambiguous = () => CountedGrammar.parse('root ::= "a"* "a"*', 'root', 32_000, trie)
  t.throws(ambiguous, /it was built/)
  t.throws(
    () => CountedGrammar.parse(`root ::= ${literals}`, 'root', 150_000, trie),
    /it was built/,
  )
  t.end()
})
