import { syncBuiltinESMExports } from 'node:module'
import workers from 'node:worker_threads'
import { array, assert, constantFrom, integer, property, string, uint8Array } from 'fast-check'
import { attempt, type CllmError, type JsonSchema, type OutputConstraint } from '@cllm/core'
import t from 'tap'
import { ConstraintGrammars } from '../../src/grammar/constraint-grammars.js'
import { parseGbnf } from '../../src/grammar/gbnf/gbnf-parser.js'
import { grammarText } from '../../src/grammar/gbnf/gbnf-writer.js'
import { JsonLayout } from '../../src/grammar/match/forced-text.js'
import { TokenGrammar } from '../../src/grammar/match/token-grammar.js'
import { buildTokenTrie, type TokenTexts } from '../../src/grammar/match/token-trie.js'
import { regexRule } from '../../src/grammar/pattern/automaton-rule.js'
import { LinearPattern } from '../../src/grammar/pattern/nfa.js'
import { SchemaBudget } from '../../src/grammar/refuse.js'
import { jsonGbnf, schemaToGbnf } from '../../src/grammar/schema/schema-to-gbnf.js'
import { TriggerSearch } from '../../src/grammar/trigger-search.js'
import { ConstraintTrack } from '../../src/sampling/constraint-track.js'
import type { Vocabulary } from '../../src/text/vocabulary.js'

type Text = string | Uint8Array

const encoder = new TextEncoder()
const bytesOf = (text: Text) => (typeof text === 'string' ? encoder.encode(text) : text)
const end = '<end>'

/** Texts one behind the other. */
function flat(texts: readonly Uint8Array[]): TokenTexts {
  const starts = new Uint32Array(texts.length + 1)
  for (const [token, { length }] of texts.entries()) starts[token + 1] = starts[token]! + length
  return { bytes: Buffer.concat(texts), starts }
}

/** A grammar over tokens with these texts. */
function grammarOf(gbnf: string, texts: readonly Text[]) {
  const all = texts.map((text) => bytesOf(text))
  const ends = new Set([...texts.keys()].filter((token) => texts[token] === end))
  const trie = buildTokenTrie(flat(all), (token) => !ends.has(token))
  const bytes = (token: number) => all[token]!
  const encode = (text: string) => longestOf(text, all)
  const tokens = { size: texts.length, endOfGeneration: ends, bytes, trie, encode }
  return new TokenGrammar(parseGbnf(gbnf, 'root'), tokens)
}

/** A text as tokens, each as long as it can be. */
function longestOf(text: string, all: readonly Uint8Array[]): number[] {
  const tokens: number[] = []
  let rest = Buffer.from(text)
  while (rest.length > 0) {
    let best = -1
    for (const [token, bytes] of all.entries()) {
      const isLonger = bytes.length > (all[best]?.length ?? 0)
      if (isLonger && rest.subarray(0, bytes.length).equals(bytes)) best = token
    }
    if (best === -1) return tokens
    tokens.push(best)
    rest = rest.subarray(all[best]!.length)
  }
  return tokens
}

/** The tokens of a mask. */
const listed = (mask: Uint32Array, size: number) =>
  [...Array(size).keys()].filter((token) => ((mask[token >> 5]! >> (token & 31)) & 1) === 1)

/** The tokens of each text in a tree, in its order. */
function listedTrie(texts: readonly Uint8Array[]): [text: string, tokens: number[]][] {
  const trie = buildTokenTrie(flat(texts), () => true)
  const found: [string, number[]][] = []
  const walk = (node: number, before: readonly number[]) => {
    const tokens = [...trie.tokens.subarray(trie.starts[node], trie.starts[node + 1])]
    if (tokens.length > 0) found.push([before.join(), tokens])
    for (let child = node + 1; child < trie.ends[node]!; child = trie.ends[child]!) {
      walk(child, [...before, trie.bytes[child]!])
    }
  }
  walk(0, [])
  return found
}

t.test('the vocabulary as a tree', (t) => {
  const bytes = uint8Array({ minLength: 1, maxLength: 5, max: 2 })
  const anyBytes = uint8Array({ maxLength: 4 })
  assert(
    property(array(bytes, { maxLength: 120 }), array(anyBytes), (similar, others) => {
      const texts = [...similar, ...others]
      const expected = new Map<string, number[]>()
      const order = [...texts.keys()].sort((a, b) => Buffer.compare(texts[a]!, texts[b]!) || a - b)
      for (const token of order) {
        const text = texts[token]!.join()
        if (text !== '') expected.set(text, [...(expected.get(text) ?? []), token])
      }
      return JSON.stringify(listedTrie(texts)) === JSON.stringify([...expected])
    }),
    { numRuns: 200 },
  )
  t.end()
})

const letters = [...Array(0x60).keys()].map((code) => String.fromCharCode(0x1f + code))

t.test('forced text is all that may come', (t) => {
  const texts = [...letters, 'é', 'aé', 'ab', 'abc', 'a b', 'b', '", "', '<tool', end]
  const literals = ['"a"', '"ab"', '"abc "', '"é"', '"a"{3}', '"<tool>"']
  const choices = [
    '"x" [0-9]',
    '[ab]{2}',
    '("b" | "bc")',
    '"a"? "b"',
    '("q" | "é" | "aé")',
    '[^a-z]',
  ]
  const piece = constantFrom(...literals, ...choices, 'again')
  assert(
    property(
      array(piece, { minLength: 1, maxLength: 6 }),
      array(integer({ min: 0 })),
      (all, path) => {
        const grammar = grammarOf(`root ::= ${all.join(' ')}\nagain ::= "z" again | "a b"`, texts)
        let state = grammar.begin()
        for (const choice of path) {
          const { tokens } = grammar.forced(state, new JsonLayout(), 8)
          let rest = tokens.map((token) => texts[token]!).join('')
          let at = state
          while (rest !== '') {
            const next = listed(grammar.mask(at), texts.length)
            for (const token of next) {
              const text = texts[token]!
              if (rest.startsWith(text) || text.startsWith(rest)) continue
              throw new Error(`${JSON.stringify(text)} may come in place of ${rest}`)
            }
            const taken = next.find((token) => rest.startsWith(texts[token]!))
            if (taken === undefined) throw new Error(`${rest} may not come`)
            rest = rest.slice(texts[taken]!.length)
            at = grammar.after(at, taken)!
          }
          const allowed = listed(grammar.mask(state), texts.length)
          const token = allowed[choice % allowed.length]!
          if (texts[token] === end) break
          state = grammar.after(state, token)!
        }
      },
    ),
    { numRuns: 400 },
  )
  t.end()
})

/** What is forced behind the beginning of an answer in these tokens. */
function forcedBehind(gbnf: string, texts: readonly string[], before: string): string {
  const grammar = grammarOf(gbnf, texts)
  const layout = new JsonLayout()
  let state = grammar.begin()
  for (const character of before) {
    layout.read(character)
    state = grammar.after(state, texts.indexOf(character))!
  }
  const { tokens, kind } = grammar.forced(state, layout, 99)
  return tokens.map((token) => texts[token]).join('') + (kind === 1 ? '?' : '')
}

t.test('white space between forced text is guessed as it was before', (t) => {
  const properties = { id: { enum: [1, 2] }, of: { const: [] }, to: { type: 'object' } }
  const required = ['id', 'of', 'to']
  const gbnf = schemaToGbnf({ type: 'object', properties, required, additionalProperties: false })
  const rows = [
    ['', '{"id":?'],
    ['{', '"id":?'],
    ['{\n', '  "id":?'],
    ['{"id": 1', ', "of": [], "to": {'],
    ['{"id":1', ',"of":[],"to":{'],
    ['{\n  "id": 1', ',\n  "of": [],\n  "to": {'],
    ['{ "id": 1', ', "of": [], "to": {'],
    ['{"id": 1, "of": [], "to": {"', ''],
    ['{\n "id": 1,\n "of": [],\n "to": {\n  "a,b": 1\n }', '\n}'],
  ] as const
  for (const [before, forced] of rows) {
    t.equal(forcedBehind(gbnf, [...letters, '\n', end], before), forced, before)
  }
  t.end()
})

t.test('the last of forced tokens is left out where it may be a part of a longer one', (t) => {
  const gbnf = 'root ::= "ab" [c-e]'
  t.equal(forcedBehind(gbnf, [...letters, 'ab', end], ''), 'ab')
  t.equal(forcedBehind(gbnf, [...letters, 'ab', 'abc', 'abd', end], ''), '')
  t.equal(forcedBehind('root ::= "ab" <[5]> "c"', [...letters, end], ''), 'ab', 'a named token')
  t.equal(forcedBehind('root ::= "ab" | "abc"', [...letters, end], ''), 'ab', 'or an end')
  t.equal(forcedBehind('root ::= "see ] end"', [...letters, end], ''), 'see ] end', 'no JSON')
  t.end()
})

t.test('what is forced is not looked for among many readings', (t) => {
  const forced = (ways: number) =>
    forcedBehind(`root ::= ${'"a"? '.repeat(ways)} "a"{400}`, [...letters, end], '')
  t.equal(forced(10), 'a'.repeat(99))
  t.equal(forced(200), '', 'each character would cost 40,000 steps')
  t.end()
})

t.test('ambiguity inside of a token costs no more than its text', (t) => {
  const tokens = [`${' '.repeat(64)}!`, `${'a'.repeat(64)}!`, 'b', '(((((((((((((((((((((!', 'x']
  for (const [grammar, next] of [
    ['root ::= (" "+)* "x"', [4]],
    ['root ::= (" " | " ")* "x"', [4]],
    ['root ::= ([^b] | [^b] | [^b])*', [0, 1, 3, 4]],
    [`root ::= ${'"a"? '.repeat(40)} "a"{40} "b"`, []],
    ['root ::= [a-z ]{30} ([a-z ] | [a-z ])*', [2, 4]],
  ] as const) {
    const one = grammarOf(grammar, tokens)
    t.same(listed(one.mask(one.begin()), tokens.length), next, grammar)
  }
  const ways = Array.from({ length: 900 }, (_, nth) => `.* "${nth}"`).join('|')
  const many = Array.from({ length: 40_000 }, (_, nth) => nth.toString(36))
  for (const [grammar, texts] of [
    [`root ::= ${ways}`, many],
    // each reading has another end
    ['root ::= s\ns ::= "(" s ")" | "(" s "]" | ""', tokens],
  ] as const) {
    const one = grammarOf(grammar, texts)
    t.throws(() => one.mask(one.begin()), { code: 'invalid_constraint', message: /too ambiguous/ })
  }
  t.end()
})

const grammars = [
  'root ::= "a"{2,4} ("b" | "c"*)? [^a-c] .',
  'root ::= ( "a" | # a comment\n "ab" )+ "c"{0} [\\x61-\\x63\\]\\-] | <[1]> !<[2]> "z" \r\n',
  'root ::= x{1,3} y\nx ::= "ab" | "ba" ""\ny ::= [] "b" x+',
  'root ::= "\\"" [^"\\\\]* "\\"" | "\\u00e9\\U0000263a" | "é"+',
  'root ::= a | "(" root ")"\na ::= [ab]{3} | [a-b]+ "c" \n a ::= "a" b*\nb ::= ("b" "a"?){1,2}',
  jsonGbnf(),
  schemaToGbnf({ type: 'object', properties: { a: { enum: ['ab', 'abc'] } }, required: ['a'] }),
  schemaToGbnf({ type: 'array', items: { type: 'integer', minimum: 5, maximum: 120 } }),
]
const bytes = (...values: number[]) => Uint8Array.from(values)
const pieces = [
  ...'abc(){}[]",:1☺ \n'.split(''),
  'ab',
  '"a"',
  '":',
  '[1',
  '{"a"',
  '',
  end,
  'é',
  '"é',
  'z',
  bytes(0xc3),
  bytes(0xa9),
  bytes(0xe2, 0x98),
  bytes(0xba, 0x22),
  bytes(0xed),
  bytes(0xa0),
  bytes(0xf0, 0x9f),
  bytes(0x98),
  bytes(0x80, 0x22),
  bytes(0xe0),
  bytes(0xf4),
  bytes(0xc0),
]

t.test('what a mask took is kept no longer than it is of use', (t) => {
  const letters = Array.from('abcdefgh')
  const words = letters.flatMap((a) =>
    letters.flatMap((b) => letters.flatMap((c) => letters.map((d) => a + b + c + d))),
  )
  // what comes next depends on each of the last four letters
  const ways = letters.map((letter) => `"${letter}" [a-h]{4}`).join(' | ')
  const grammar = grammarOf(`root ::= "-" [a-h]* (${ways})`, [...words, '-'])
  const state = grammar.after(grammar.begin(), words.length)!
  t.equal(listed(grammar.mask(state), words.length + 1).length, words.length)
  t.ok(state.graph.isFull)
  t.ok(grammar.begin().graph.size < 100)
  const next = grammar.after(state, 5)!
  t.equal(next.graph, grammar.begin().graph, 'the text goes on in the new graph')
  t.same(grammar.mask(next), grammar.mask(grammar.after(state, 5)!))
  t.end()
})

t.test('a mask has the tokens that may come next, however a text came to be', (t) => {
  const texts = array(integer({ min: 0, max: pieces.length - 1 }), { maxLength: 12 })
  let kept = 0
  for (const gbnf of grammars) {
    const grammar = grammarOf(gbnf, pieces)
    assert(
      property(texts, (tokens) => {
        let state = grammar.begin()
        for (const token of tokens) {
          const next = [...pieces.keys()].filter((one) => grammar.after(state, one) !== undefined)
          if (next.join() !== listed(grammar.mask(state), pieces.length).join()) return false
          // what was drawn may be anything: the text goes on with what may come
          const taken = next.includes(token) ? token : next[token % Math.max(1, next.length)]
          if (taken === undefined) return true // no other piece goes on with a part of a character
          state = grammar.after(state, taken)!
          kept++
        }
        return true
      }),
      { numRuns: 300, seed: 3 },
    )
  }
  t.ok(kept > 1000, `${kept} tokens were kept`)
  t.end()
})

t.test('texts are cut into tokens anywhere, and are valid UTF-8', (t) => {
  const all = Array.from({ length: 256 }, (_, byte) => bytes(byte))
  const grammar = grammarOf('root ::= ([a-z] | [\\u0080-\\U0010ffff])*', all)
  const isKept = (text: Uint8Array) => {
    let state: ReturnType<typeof grammar.begin> | undefined = grammar.begin()
    for (const byte of text) state = state && grammar.after(state, byte)
    return state?.place.left === 0
  }
  for (const text of ['a', 'é', 'ࠀ', '€', '\ud7ff', '\ue000', '𐀀', '😀', '\u{10ffff}']) {
    t.ok(isKept(encoder.encode(text)), text)
  }
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const part = integer({ min: 0x7f, max: 0xff })
  const isValid = (text: Uint8Array) => {
    try {
      return /^[a-z\u0080-\u{10ffff}]*$/u.test(decoder.decode(text))
    } catch {
      return false
    }
  }
  assert(
    property(array(part, { minLength: 1, maxLength: 4 }), (text) => {
      const from = Uint8Array.from(text)
      return isKept(from) === isValid(from)
    }),
    { numRuns: 20_000, seed: 6 },
  )
  for (const lead of [0xe0, 0xed, 0xef, 0xf0, 0xf4]) {
    for (let next = 0x80; next < 0xc0; next++) {
      const from = bytes(lead, next, ...(lead < 0xf0 ? [0x80] : [0x80, 0x80]))
      t.equal(isKept(from), isValid(from), `${lead} ${next}`)
    }
  }
  t.end()
})

t.test('a long text makes a new graph again and again', (t) => {
  const grammar = grammarOf('root ::= "a"{0,2000} s\ns ::= "(" s ")" | "x"', [
    '(',
    ')',
    'x',
    'a',
    end,
  ])
  let state = grammar.begin()
  for (let nth = 0; nth < 30_000; nth++) state = grammar.after(state, 0)!
  state = grammar.after(state, 2)!
  for (let nth = 0; nth < 30_000; nth++) {
    if (nth % 5000 === 0) t.same(listed(grammar.mask(state), 5), [1])
    state = grammar.after(state, 1)!
  }
  t.same(listed(grammar.mask(state), 5), [4])
  t.equal(grammar.after(state, 1), undefined)
  t.end()
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
        parseGbnf(`root ::= ${list.join('')}${tail}`, 'root')
      } catch (error) {
        return (error as { code?: string }).code === 'invalid_constraint'
      }
      return true
    }),
    { numRuns: 2000, seed: 5 },
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
  // with a group around it, it would be one
  t.throws(() => grammarText((writer) => regexRule(writer, 'a)|(?:b', new SchemaBudget())), {
    code: 'invalid_constraint',
  })
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
const parts = [
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
const vocabulary = { bytes: (token: number) => new TextEncoder().encode(parts[token]) }

t.test('a trigger is found with the token that completes it', (t) => {
  const tokens = array(constantFrom(...parts.keys()), { maxLength: 10 })
  for (const pattern of patterns) {
    assert(
      property(tokens, (output) => {
        const search = new TriggerSearch(vocabulary, new RegExp(pattern))
        for (let length = 1; length <= output.length; length++) {
          const text = output
            .slice(0, length)
            .map((token) => parts[token])
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
      output.push(parts.indexOf('</think>'), parts.indexOf(' '))
      search.find(output)
    }
    t.equal(searches, 0, pattern)
  }
  t.end()
})

const written = ['<call', '> {', '"a":', '7', '}', '> {{', end]
const [mark, opening, name, value, closing, wrong] = written.keys()

/** Grammars over these tokens, and how often one was compiled that names a token. */
function compiling() {
  const texts = written.map((text) => encoder.encode(text))
  const vocabulary = {
    size: texts.length,
    texts: flat(texts),
    bytes: (token: number) => texts[token]!,
    endOfGeneration: new Set([written.indexOf(end)]),
  } as unknown as Vocabulary
  let named = 0
  const grammars = new ConstraintGrammars(vocabulary, () => {
    named++
    return [mark!]
  })
  const trackOf = (constraint: OutputConstraint) =>
    new ConstraintTrack(grammars.of(constraint), vocabulary, [closing!], 1)
  return { trackOf, named: () => named, grammars }
}

const schemaOf = (schema: JsonSchema): OutputConstraint => ({ type: 'json-schema', schema })
const numbered = (count: number) => Array.from({ length: count }, (_, nth) => `value ${nth}`)

t.test('what takes long is compiled in another thread, and becomes the same', async (t) => {
  const { grammars } = compiling()
  t.teardown(async () => await grammars.dispose())
  const texts = numbered(3000)
  const large: OutputConstraint[] = [
    schemaOf({ enum: numbered(12_000) }),
    { type: 'gbnf', grammar: `root ::= <mark> ${texts.map((one) => `"${one}" <[3]>`).join(' ')}` },
    // refused
    schemaOf({ properties: Object.fromEntries(numbered(3000).map((name) => [name, {}])) }),
  ]
  for (const constraint of large) {
    const made = (of: ConstraintGrammars) => {
      const { trigger, grammar } = of.of(constraint)
      return { trigger, rules: grammar.rules, mask: grammar.mask(grammar.begin()) }
    }
    const here = attempt(() => made(compiling().grammars))
    const prepared = grammars.prepare(constraint)
    t.type(prepared, Promise)
    if (here !== undefined) {
      await prepared
      t.same(made(grammars), here)
      t.equal(grammars.prepare({ ...constraint }), undefined, 'it is known')
      continue
    }
    const error: unknown = await Promise.resolve(prepared).catch((thrown: unknown) => thrown)
    const { code, message, details } = error as CllmError
    t.throws(() => made(compiling().grammars), { code, message, details })
  }
})

t.test(
  'the tools of an agent are compiled in another thread, without a try in this one',
  async (t) => {
    const { grammars } = compiling()
    t.teardown(async () => await grammars.dispose())
    const properties = Object.fromEntries(numbered(6).map((name) => [name, { type: 'string' }]))
    const tools = numbered(20).map((name) => ({
      title: `${name}: ${'what it does '.repeat(12)}`,
      properties,
    }))
    t.type(grammars.prepare(schemaOf({ anyOf: [tools[0]!] })), 'undefined')
    const prepared = grammars.prepare(schemaOf({ anyOf: tools.slice(0, 14) }))
    t.type(prepared, Promise)
    await prepared
  },
)

t.test('what is hopeless is refused at once', (t) => {
  const { grammars } = compiling()
  const hopeless: readonly OutputConstraint[] = [
    schemaOf({ enum: Array.from({ length: 6e5 }, () => 1) }),
    { type: 'gbnf', grammar: `root ::= "${'x'.repeat(2e5)}"` },
    { type: 'gbnf', grammar: `root ::= "${'x'.repeat(1000)}"{0,2000}` },
  ]
  for (const constraint of hopeless) {
    t.throws(() => grammars.prepare(constraint), { code: 'invalid_constraint' })
  }
  t.end()
})

/** What the next thread does, and the error that its request ends with. */
const deaths: readonly (readonly [
  begin: (file: URL, options: workers.WorkerOptions) => workers.Worker,
  error: { readonly code: string; readonly message: RegExp },
])[] = [
  [
    (file, options) => {
      const worker = new workers.Worker(file, options)
      void worker.terminate()
      return worker
    },
    { code: 'invalid_constraint', message: /ended/ },
  ],
  [
    (file, options) =>
      new workers.Worker(file, { ...options, resourceLimits: { maxOldGenerationSizeMb: 2 } }),
    { code: 'invalid_constraint', message: /memory limit/ },
  ],
  [
    (file, options) => new workers.Worker(new URL('none.js', file), options),
    { code: 'backend_failed', message: /no thread could be started: Cannot find/ },
  ],
  [
    () => {
      throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' })
    },
    { code: 'backend_failed', message: /no thread could be started: EAGAIN/ },
  ],
]

t.test('a thread that dies, or cannot be started, fails its own request only', async (t) => {
  const { grammars } = compiling()
  t.teardown(async () => await grammars.dispose())
  const { Worker } = workers
  for (const [nth, [begin, error]] of deaths.entries()) {
    workers.Worker = function (file: URL, options: workers.WorkerOptions) {
      workers.Worker = Worker
      syncBuiltinESMExports()
      return begin(file, options)
    } as unknown as typeof Worker
    syncBuiltinESMExports()
    const [first, second] = [1, 2].map((more) =>
      schemaOf({ enum: numbered(12_000 + 2 * nth + more) }),
    )
    const dies = Promise.resolve(grammars.prepare(first!))
    const lives = grammars.prepare(second!)
    await t.rejects(dies, error)
    await lives
    t.ok(grammars.of(second!))
  }
})

t.test('what nobody waits for any more ends, and the next one begins', async (t) => {
  const { grammars } = compiling()
  t.teardown(async () => await grammars.dispose())
  const [first, second, third] = [1, 2, 3].map((more) =>
    schemaOf({ enum: numbered(12_000 + more) }),
  )
  const [leaving, queued] = [new AbortController(), new AbortController()]
  const ended: unknown[] = []
  const end = async (constraint: OutputConstraint, { signal }: AbortController) => {
    await Promise.resolve(grammars.prepare(constraint, signal)).catch((error: unknown) => {
      ended.push(error)
    })
  }
  const jobs = [end(first!, leaving), end(second!, queued)]
  const lives = grammars.prepare(third!, new AbortController().signal)
  await new Promise(setImmediate)
  queued.abort('the second has left')
  await new Promise(setImmediate)
  t.same(ended, ['the second has left'], 'it does not wait for its turn')
  leaving.abort('the first has left')
  await Promise.all(jobs)
  t.same(ended, ['the second has left', 'the first has left'])
  await lives
  t.ok(grammars.of(third!))
})

t.test('tenants take turns at one thread, which ends when no constraint waits', async (t) => {
  const { grammars } = compiling()
  t.teardown(async () => await grammars.dispose())
  const { Worker } = workers
  const started: workers.Worker[] = []
  workers.Worker = class extends Worker {
    constructor(file: URL, options: workers.WorkerOptions) {
      super(file, options)
      started.push(this)
    }
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    workers.Worker = Worker
    syncBuiltinESMExports()
  })
  const order: string[] = []
  const leaving = new AbortController()
  const wait = async (name: string, tenant: string, signal?: AbortSignal) => {
    const constraint = schemaOf({ enum: numbered(12_000).concat(name) })
    await Promise.resolve(grammars.prepare(constraint, signal, tenant)).catch(() => {})
    order.push(name)
  }
  const jobs = ['a1', 'a2', 'a3', 'b1'].map((name) => wait(name, name[0]!))
  jobs.push(wait('left', 'b', leaving.signal))
  leaving.abort()
  await Promise.all(jobs)
  t.same(order, ['left', 'a1', 'a2', 'b1', 'a3'])
  t.equal(started.length, 1)
  t.equal(started[0]!.threadId, -1, 'it has ended')
  await wait('a4', 'a')
  t.equal(started.length, 2)
})

t.test('what is under way in another thread ends with the grammars', async (t) => {
  const { grammars } = compiling()
  const jobs = [1, 2].map(async (more) => {
    await grammars.prepare(schemaOf({ enum: numbered(12_000 + more) }))
  })
  const gone = { code: 'backend_failed', message: /disposed/ }
  const ends = jobs.map(async (job) => await t.rejects(job, gone))
  await new Promise(setImmediate)
  await grammars.dispose()
  await Promise.all(ends)
})

t.test('a grammar in use is compiled once, however many others are', (t) => {
  const { trackOf, named } = compiling()
  const tracks = Array.from({ length: 60 }, (_, nth) =>
    trackOf({ type: 'gbnf', grammar: `root ::= <mark>{${nth + 1}} "7"` }),
  )
  for (const [position, token] of [closing!, mark!, mark!].entries()) {
    for (const track of tracks.slice(2)) {
      t.ok(track.prepare(position, position, [token]))
      t.same(listed(track.mask(), written.length), [mark])
      t.notOk(track.take(value!))
    }
  }
  t.equal(named(), tracks.length)
  t.end()
})

t.test('a grammar that begins within a token is not compiled once more', (t) => {
  let reads = 0
  const schema = {
    type: 'object',
    get properties() {
      reads++
      return { a: { type: 'integer' } }
    },
    required: ['a'],
  }
  const constraint = { type: 'triggered-json', trigger: '<call>', schema } as const
  const { trackOf } = compiling()
  const tracks = [trackOf(constraint), trackOf(constraint)]
  t.ok(reads > 0)
  reads = 0
  const held = (track: ConstraintTrack, tokens: readonly (number | undefined)[]) =>
    tokens.map((token, position) => track.prepare(position, position, [token!]))
  const [kept, free] = tracks
  t.same(held(kept!, [closing, mark, opening, name, value]), [false, false, true, true, true])
  t.same(listed(kept!.mask(), written.length), [value, closing])
  t.same(held(free!, [closing, mark, wrong, name]), [false, false, false, false])
  t.equal(reads, 0)
  t.end()
})
