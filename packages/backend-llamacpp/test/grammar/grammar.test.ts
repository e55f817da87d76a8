import type { JsonSchema } from '@cllm/core'
import { array, assert, constantFrom, property, string } from 'fast-check'
import t from 'tap'
import { CountedGrammar } from '../../src/grammar/budget/counted-grammar.js'
import { ambiguityBound } from '../../src/grammar/budget/ambiguity-bound.js'
import { GrammarReading } from '../../src/grammar/budget/grammar-reading.js'
import { buildTokenTrie } from '../../src/grammar/budget/token-trie.js'
import { parseGbnf } from '../../src/grammar/gbnf/gbnf-parser.js'
import { LinearPattern } from '../../src/grammar/pattern/linear-pattern.js'
import { jsonGbnf, schemaToGbnf } from '../../src/grammar/schema/schema-to-gbnf.js'
import { TriggerSearch } from '../../src/grammar/trigger-search.js'
import { Vocabulary } from '../../src/text/vocabulary.js'
import { loadModel, tinyModel } from '../open-tiny.js'

const encoder = new TextEncoder()
const trieOf = (texts: readonly string[]) =>
  buildTokenTrie(texts.length, (token) => encoder.encode(texts[token]))

t.test('the vocabulary as a tree', (t) => {
  const trie = trieOf(['ab', 'a', '', 'abc', 'b', 'é€', 'é', 'ab'])
  t.equal(trie.characters, 2 + 1 + 3 + 1 + 2 + 1 + 2)
  const texts: [text: string, tokens: number][] = []
  const walk = (node: number, text: string) => {
    texts.push([text, trie.tokens[node]!])
    for (let child = node + 1; child < trie.ends[node]!; child = trie.ends[child]!) {
      walk(child, text + String.fromCodePoint(trie.codes[child]!))
    }
  }
  walk(0, '')
  t.same(texts, [
    ['', 7],
    ['a', 4],
    ['ab', 3],
    ['abc', 1],
    ['b', 1],
    ['é', 2],
    ['é€', 1],
  ])
  t.end()
})

t.test('ambiguity inside of a token, which llama.cpp follows reading by reading', (t) => {
  const trie = trieOf([`${' '.repeat(64)}!`, `${'a'.repeat(64)}!`, 'b', '(((((((((((((((((((((!'])
  for (const grammar of [
    'root ::= (" "+)* "x"',
    'root ::= (" " | " ")* "x"',
    'root ::= ([^b] | [^b] | [^b])*',
    `root ::= ${'"a"? '.repeat(40)} "a"{40} "b"`,
    'root ::= s\ns ::= "(" s ")" | "(" s "]" | ""',
    'root ::= [a-z ]{30} ([a-z ] | [a-z ])*',
  ]) {
    t.throws(
      () => CountedGrammar.parse(grammar, 'root', 1, () => trie),
      { code: 'invalid_constraint', message: /too ambiguous/ },
      grammar,
    )
  }
  for (const grammar of ['root ::= (" " | "a" | "(")* "x"', 'root ::= " "* "a"* " "* "x"']) {
    CountedGrammar.parse(grammar, 'root', 1, () => trie)
    t.pass(grammar)
  }
  t.end()
})

t.test('readings are those of llama.cpp', async (t) => {
  const modelPath = await tinyModel(t)
  const model = { modelPath, gpuLayers: 0, contextSize: 64, mmap: true, mlock: false } as const
  // The C API's states refuse the first bytes of a character that cannot follow, llama.cpp the last.
  const loaded = await loadModel({ ...model, path: 'addon' })
  t.teardown(() => loaded.dispose())
  const vocabulary = new Vocabulary(loaded.native, loaded.vocabularySize)
  const grammars = [
    'root ::= "a"{2,4} ("b" | "c"*)? [^a-c] .',
    'root ::= ( "a" | # a comment\n "ab" )+ "c"{0} [\\x61-\\x63\\]\\-] | <[97]> !<[98]> "z" \r\n',
    'root ::= x{1,3} y\nx ::= "ab" | "ba" ""\ny ::= [] "b" x+',
    'root ::= "\\"" [^"\\\\]* "\\"" | "\\u00e9\\U0000263a" | "é"+',
    'root ::= a | "(" root ")"\na ::= [ab]{3} | [a-b]+ "c" \n a ::= "a" b*\nb ::= ("b" "a"?){1,2}',
    jsonGbnf(),
    schemaToGbnf({ type: 'object', properties: { a: { enum: ['ab', 'abc'] } }, required: ['a'] }),
    schemaToGbnf({ type: 'array', items: { type: 'integer', minimum: 5, maximum: 120 } }),
  ]
  const trie = trieOf(['a'])
  const parts = constantFrom(...'aabbcc(){}[]",:1é☺ \n'.split(''), 'ab', '"a"', '":', '[1', '{"a"')
  const texts = array(parts, { maxLength: 12 })
  let runs = 0
  let kept = 0
  for (const gbnf of grammars) {
    const native = loaded.parseGrammar(gbnf, 'root')
    const counted = CountedGrammar.parse(gbnf, 'root', 1, () => trie)
    assert(
      property(texts, (text) => {
        runs++
        const state = native.begin()
        const reading = new GrammarReading(counted)
        for (const token of loaded.native.tokenize(text.join(''), false)) {
          let isPossible = true
          try {
            native.accept(state, token)
          } catch {
            isPossible = false
          }
          reading.accept(token, vocabulary.bytes(token))
          if (reading.isPossible !== isPossible) return false
          if (!isPossible) return true
          kept++
        }
        return true
      }),
      { numRuns: 400, seed: 3 },
    )
  }
  t.ok(kept > runs / 8, `${kept} tokens were kept`)
})

t.test('every invalid text fails with invalid_constraint', (t) => {
  const words = [
    'root',
    ' ::= ',
    '"a"',
    '[a-',
    ']',
    '(',
    ')',
    '{2,',
    '1}',
    '*',
    '?',
    '|',
    '\n',
    '"',
  ]
  const parts = constantFrom(...words, '\\x', '#', '<[5]>', '!', ' ')
  const text = array(parts, { maxLength: 20 })
  assert(
    property(text, string(), (list, tail) => {
      try {
        CountedGrammar.parse(`root ::= ${list.join('')}${tail}`, 'root', 1, () => trieOf(['a']))
      } catch (error) {
        return (error as { code?: string }).code === 'invalid_constraint'
      }
      return true
    }),
    { numRuns: 2000, seed: 5 },
  )
  t.end()
})

const readings = (gbnf: string) => ambiguityBound(parseGbnf(gbnf, 'root'))
const text = { type: 'string' } as const
const members = (count: number): JsonSchema =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`member${index}`, text]))

t.test('ordinary schemas have few readings', (t) => {
  const kind = (name: string, other: JsonSchema) => ({
    type: 'object',
    properties: { kind: { const: name }, value: other },
    required: ['kind', 'value'],
  })
  const schemas: Readonly<Record<string, JsonSchema>> = {
    anything: {},
    'free strings': { properties: { a: text, b: text }, required: ['a'] },
    'a long string': { type: 'string', maxLength: 200 },
    'nested arrays': { items: { items: { type: 'integer', minimum: 0, maximum: 120 } } },
    'a nullable number': { anyOf: [{ type: 'number', minimum: -1.5 }, { type: 'null' }] },
    'a union of kinds': { items: { anyOf: [kind('a', text), kind('ab', { type: 'number' })] } },
    'a union that shares a string': {
      anyOf: [
        { properties: { a: text, b: text }, required: ['a', 'b'] },
        { properties: { a: text, c: text }, required: ['a', 'c'], additionalProperties: false },
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

t.test('patterns match what regular expressions match', (t) => {
  const characters = ['a', 'b', '.', '[ab]', '[^a]', '\\d', '\\W', '\\p{L}', '[\\p{Lu}b]', '☺']
  const groups = ['(a|b)', '(?:a|ab|)', '(?:(a*)*)', '(?:b+a|)', '(?:a(?!b(?=a))|b)']
  const places = ['^', '$', '\\b', '\\B', '(?=a)', '(?!.*1)', '(?=(?:b(?!a)|a)*$)']
  const atoms = constantFrom(...characters, ...groups, ...places)
  const quantified = atoms.chain((atom) =>
    places.includes(atom)
      ? constantFrom(atom)
      : constantFrom('', '*', '+', '?', '{2}', '{1,3}', '{0}', '{2,}', '*?').map((q) => atom + q),
  )
  const pattern = array(quantified, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(''))
  const patterns = array(pattern, { minLength: 1, maxLength: 2 }).map((ways) => ways.join('|'))
  const text = array(constantFrom('a', 'b', 'A', '1', ' ', '☺', '\n', 'é'), { maxLength: 8 })
  assert(
    property(patterns, text, (source, characters) => {
      const string = characters.join('')
      return (
        new LinearPattern(source, () => {}).test(string) === new RegExp(source, 'u').test(string)
      )
    }),
    { numRuns: 1500, seed: 2 },
  )
  t.end()
})

t.test('the work is linear in the text', (t) => {
  for (const source of ['^(a|a|aa)+$', '^(a+)+$', '^(a*)*b', '(.*)*x', '^(?:a?){30}a{30}$']) {
    const work = (length: number) => {
      let steps = 0
      const pattern = new LinearPattern(source, (more) => void (steps += more))
      pattern.test(`${'a'.repeat(length)}!`)
      return steps
    }
    t.ok(work(2000) < 2.2 * work(1000), `${source}: ${work(1000)}, ${work(2000)}`)
  }
  t.end()
})

t.test('what has no automaton is refused', (t) => {
  for (const source of ['(?<!a)b', '(a)\\1', 'a{1000}'.repeat(30), '(', '('.repeat(1e4)]) {
    t.throws(
      () => new LinearPattern(source, () => {}),
      { name: 'Error', message: /./ },
      source.slice(0, 20),
    )
  }
  t.end()
})

const thoughts = '(?:\\s*<think>[\\s\\S]*?</think>|(?!\\s*<think>))'
const patterns = [
  '<tool_call>',
  `^${thoughts}[\\s\\S]*?<tool_call>`,
  '^[\\s\\S]*?</think>[\\s\\S]*?<tool_call>',
  `^${thoughts}\\s*(?=\\{)`,
  '^[\\s\\S]*?</think>\\s*(?=\\[)',
  '(?=[\\s\\S]*x)a',
  'a$|b',
  'a(?!b)',
  'a\\b',
]
const pieces = [
  '<tool_call>',
  '<tool',
  '_call>',
  '</think>',
  '<think>',
  ' ',
  '{',
  '[',
  'a',
  'x',
  'b',
]

/** One token for each piece. */
const vocabulary = { bytes: (token: number) => new TextEncoder().encode(pieces[token]) }

t.test('a trigger is found with the token that completes it', (t) => {
  const tokens = array(constantFrom(...pieces.keys()), { maxLength: 10 })
  for (const pattern of patterns) {
    assert(
      property(tokens, (output) => {
        const search = new TriggerSearch(vocabulary, new RegExp(pattern))
        for (let length = 1; length <= output.length; length++) {
          const text = output
            .slice(0, length)
            .map((token) => pieces[token])
            .join('')
          const isThere = new RegExp(pattern).test(text)
          if ((search.find(output.slice(0, length)) !== undefined) !== isThere) return false
          if (isThere) return true
        }
        return true
      }),
      { numRuns: 500, seed: 4 },
    )
    t.pass(pattern)
  }
  t.end()
})

t.test('a long text without the ending of the trigger is not searched again and again', (t) => {
  for (const pattern of patterns.slice(0, 5)) {
    const expression = new RegExp(pattern)
    let searches = 0
    const exec = expression.exec.bind(expression)
    expression.exec = (text) => {
      searches++
      return exec(text)
    }
    const search = new TriggerSearch(vocabulary, expression)
    const output: number[] = []
    for (let count = 0; count < 2000; count++) {
      output.push(pieces.indexOf('</think>'), pieces.indexOf(' '))
      search.find(output)
    }
    t.equal(searches, 0, pattern)
  }
  t.end()
})
