import { assert, constantFrom, property, array, string } from 'fast-check'
import t from 'tap'
import { openLlama } from '../../../src/native/addon.js'
import { CountedGrammar } from '../../../src/grammar/budget/counted-grammar.js'
import { GrammarReading } from '../../../src/grammar/budget/grammar-reading.js'
import { jsonGbnf, schemaToGbnf } from '../../../src/grammar/schema/schema-to-gbnf.js'
import { buildTokenTrie } from '../../../src/grammar/budget/token-trie.js'
import { Vocabulary } from '../../../src/text/vocabulary.js'
import { recordingLogger, tinyModel } from '../../open-tiny.js'

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
  const llama = await openLlama('off', recordingLogger())
  const modelPath = await tinyModel(t)
  const model = { modelPath, gpuLayers: 0, contextSize: 64, mmap: true, mlock: false } as const
  // The C API's states refuse the first bytes of a character that cannot follow, llama.cpp the last.
  const loaded = await llama.loadModel({ ...model, path: 'addon' })
  t.teardown(() => loaded.dispose())
  const vocabulary = new Vocabulary(loaded.native, loaded.tokenTexts)
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
  let kept = 0
  for (const gbnf of grammars) {
    const native = loaded.parseGrammar(gbnf, 'root')
    const counted = CountedGrammar.parse(gbnf, 'root', 1, () => trie)
    assert(
      property(texts, (text) => {
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
  t.ok(kept > 500, `${kept} tokens were kept`)
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
