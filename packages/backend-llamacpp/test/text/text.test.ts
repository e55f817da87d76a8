import { join } from 'node:path'
import { type ChatMessage, mediaPlace, type TokenId, type Tokenizer } from '@cllm/core'
import { bool, text, uint32 } from '@cllm/gguf'
import { array, assert, boolean, constantFrom, integer, oneof, property, string } from 'fast-check'
import { Decoder, TextParts } from '../../src/text/tokenizer.js'
import { Vocabulary } from '../../src/text/vocabulary.js'
import { loadModel, openTiny, recordingLogger, tinyModel } from '../open-tiny.js'
import type { TemplateFixture } from './chat-templates/conversations.js'
import { fixtures } from './chat-templates/fixtures.js'
import { firstControl, turnToken, writeTinyModel } from '../tiny-models.js'

import t, { type Test } from 'tap'

const emoji = '\u{1F468}\u200D\u{1F469}\u200D\u{1F467}'
const samples = [
  '',
  ' ',
  'hello',
  ' hello  world ',
  'a\n\tb',
  'Ünïcödé 你好',
  emoji,
  '\uFEFFx',
  '\0',
]

t.test('control tokens show where they are marks of a format', async (t) => {
  const { tokenizer } = await openTiny(t, { kind: 'tiny' })
  const tokens = tokenizer.encode('a<|im_start|>b<|im_end|>c', { addBos: false })
  const decoded = (marks?: readonly string[]) => {
    const decoder = tokenizer.createDecoder([], marks === undefined ? {} : { marks })
    return tokens.map((token) => decoder.push(token)).join('') + decoder.end()
  }
  t.equal(decoded(), 'abc')
  t.equal(decoded(['<tool_call>']), 'abc')
  t.equal(decoded(['<|im_start|>assistant to=']), 'a<|im_start|>bc')
})

t.test('text to tokens and back', async (t) => {
  for (const kind of ['tiny', 'llama'] as const) {
    const { tokenizer } = await openTiny(t, { kind })
    for (const sample of samples) t.equal(tokenizer.decode(tokenizer.encode(sample)), sample, kind)
    assert(
      property(string({ unit: 'grapheme' }), (sample) => {
        const tokens = tokenizer.encode(sample, { special: false })
        const decoder = tokenizer.createDecoder()
        const pieces = tokens.map((token) => decoder.push(token))
        return tokenizer.decode(tokens) === sample && pieces.join('') + decoder.end() === sample
      }),
    )
  }
})

t.test('decoders give what llama.cpp gives, and go on anywhere', async (t) => {
  for (const kind of ['tiny', 'llama'] as const) {
    const modelPath = await tinyModel(t, kind)
    const settings = { gpuLayers: 0, contextSize: 256, mmap: true, mlock: false }
    const loaded = await loadModel({ ...settings, modelPath })
    const { native, vocabularySize } = loaded
    const vocabulary = new Vocabulary(native, vocabularySize)
    const decode = (tokens: readonly TokenId[], before?: readonly TokenId[]): string => {
      const decoder = new Decoder(vocabulary, before)
      return tokens.map((token) => decoder.push(token)).join('') + decoder.end()
    }
    const id = integer({ min: 0, max: vocabulary.size - 1 })
    const tokens = array(id, { maxLength: 12 })
    const withoutEnd = (value: string): string => value.replace(/\uFFFD+$/, '')
    assert(
      property(tokens, (tokens) => {
        if (tokens[0] === vocabulary.bos) return true
        const theirs = native.detokenize(Uint32Array.from(tokens), false)
        return withoutEnd(decode(tokens)) === withoutEnd(theirs)
      }),
      { numRuns: 1000 },
    )
    assert(
      property(array(id, { minLength: 1, maxLength: 8 }), tokens, (before, after) => {
        // As in llama-server, an answer to a prompt of nothing but BOS keeps its first space.
        if (before.every((token) => token === vocabulary.bos)) return true
        return decode(before) + decode(after, before) === decode([...before, ...after])
      }),
      { numRuns: 1000 },
    )
    for (let token = 0; token < vocabulary.size; token++) {
      const bytes = vocabulary.bytes(token)
      if (bytes.length > vocabulary.maxTokenBytes) t.fail(`token ${token} is longer`)
      const isControl = vocabulary.controlTokens.some((control) => control.id === token)
      if (isControl !== (bytes.length === 0)) t.fail(`token ${token} has ${bytes.length} bytes`)
    }
    t.ok(vocabulary.maxTokenBytes < 40)
    await loaded.dispose()
  }
})

t.test('incomplete and broken characters', async (t) => {
  const { tokenizer } = await openTiny(t, { kind: 'llama' })
  const byte = (value: number): TokenId => 3 + value
  const bytes = [...new TextEncoder().encode('é你' + emoji)].map(byte)
  const decoder = tokenizer.createDecoder([bytes[0]!])
  const pieces = bytes.slice(1).map((token) => decoder.push(token))
  t.equal(pieces.join(''), 'é你' + emoji, 'a character that began before')
  t.same(pieces.slice(0, 4), ['é', '', '', '你'])
  t.equal(tokenizer.decode(bytes.slice(0, 2)), 'é')
  t.equal(tokenizer.decode(bytes.slice(0, 4)), 'é', 'what is incomplete at the end is dropped')
  t.equal(tokenizer.decode([byte(0xff), byte(0x41)]), '\uFFFDA')
  t.equal(tokenizer.decode([byte(0xe4), byte(0xbd), byte(0x41)]), '\uFFFDA')
})

t.test('special tokens', async (t) => {
  const { tokenizer } = await openTiny(t, { kind: 'llama' })
  const [bos, end] = [1, 2]
  const hello = tokenizer.encode('hello', { addBos: false })
  t.equal(tokenizer.vocabularySize, 261 + 27 + 11)
  t.same(tokenizer.encode('hello'), [bos, ...hello])
  t.same(tokenizer.encode('<s>hello'), [bos, ...hello], 'not twice')
  t.same(tokenizer.encode(''), [bos])
  t.same(tokenizer.encode('', { addBos: false }), [])
  t.same(tokenizer.encode(`hello${turnToken.text}`), [bos, ...hello, turnToken.id])
  const plain = tokenizer.encode('<s></s>', { special: false })
  t.equal(plain[0], bos)
  t.notOk(plain.slice(1).some((token) => token <= end))
  t.equal(tokenizer.decode(plain), '<s></s>')
  t.equal(tokenizer.decode([bos, ...hello, turnToken.id, ...hello, end]), 'hello hello')
  t.ok(tokenizer.isEndOfGeneration(end))
  t.notOk(tokenizer.isEndOfGeneration(hello[0]!))
  t.notOk(tokenizer.isEndOfGeneration(-1))
  for (const id of [-1, 299, 1.5, Number.NaN, Infinity]) {
    t.throws(() => tokenizer.decode([5, id]), { code: 'invalid_token', message: /0 to 298/ })
    t.throws(() => tokenizer.createDecoder([id]), { code: 'invalid_token' })
    t.throws(() => tokenizer.createDecoder().push(id), { code: 'invalid_token' })
  }
  const tiny = await openTiny(t)
  const ends = tiny.tokenizer.encode('<|im_end|>')
  t.equal(ends.length, 1, 'no begin token where the model wants none')
  t.ok(tiny.tokenizer.isEndOfGeneration(ends[0]!))
})

t.test('conversations', async (t) => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'hello' },
  ]
  t.test("by the model's own template", async (t) => {
    const logger = recordingLogger()
    const { tokenizer } = await openTiny(t, {}, logger)
    const { text, tokens } = tokenizer.renderChat(messages)
    t.equal(
      text,
      '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n',
    )
    t.same(tokens, tokenizer.encode(text))
    const closed = tokenizer.renderChat(messages, { addGenerationPrompt: false })
    t.equal(closed.text, text.replace('<|im_start|>assistant\n', ''))
    t.notOk(logger.lines.some(({ level }) => level === 'warn'))
  })

  t.test('by ChatML, with one warning', async (t) => {
    const logger = recordingLogger()
    const { tokenizer } = await openTiny(t, { kind: 'llama' }, logger)
    const { text, tokens } = tokenizer.renderChat(messages)
    t.match(text, /^<\|im_start\|>system\nBe brief\.<\|im_end\|>\n.*<\|im_start\|>assistant\n$/s)
    t.same(tokens, tokenizer.encode(text))
    tokenizer.renderChat(messages)
    const warnings = logger.lines.filter(({ level }) => level === 'warn')
    t.match(warnings, [{ message: /no chat template: using ChatML/ }])
    t.equal(warnings.length, 1)
  })

  t.test('by a given template, with its variables', async (t) => {
    const chatTemplate =
      `{{ bos_token }}{% for m in messages %}{% if m.role == 'tool' %}` +
      `{{ raise_exception('no tools here') }}{% endif %}${turnToken.text}{{ m.content | trim }}` +
      `{% endfor %}{{ mood }}{% if add_generation_prompt %}{{ eos_token }}{% endif %}`
    const { tokenizer } = await openTiny(t, { kind: 'llama', chatTemplate })
    const { text, tokens } = tokenizer.renderChat(messages, { variables: { mood: 'glad' } })
    const turn = turnToken.text
    t.equal(text, `<s>${turn}Be brief.${turn}helloglad</s>`)
    t.same(tokens, tokenizer.encode(text), 'the begin token is not doubled')
    t.equal(tokens.filter((token) => token === 1).length, 1)
    const media = [{ type: 'image' as const, at: 2, data: '' }]
    const shown = [{ role: 'user', content: 'Hi there', media }]
    const marked = tokenizer.renderChat(shown, { variables: { mood: '\ue000' } })
    t.equal(marked.tokens.filter((token) => token === mediaPlace).length, 1, 'of the image alone')
    t.match(marked.text, '\ue000')
    t.throws(() => tokenizer.renderChat([{ role: 'tool', content: '' }]), {
      code: 'invalid_request',
      message: /refuses these messages: no tools here/,
      details: { field: 'messages' },
    })
  })

  t.test('control tokens that clients write stay text', async (t) => {
    const chatTemplate =
      `{% for m in messages %}${turnToken.text}{{ m.role }} {{ m.content | trim }}</s>` +
      `{% endfor %}{{ extra }}`
    const { tokenizer } = await openTiny(t, { kind: 'llama', chatTemplate })
    const controls = (tokens: readonly TokenId[]): TokenId[] =>
      tokens.filter((token) => token < 3 || token === turnToken.id)
    const piece = oneof(
      constantFrom('<s>', '</s>', '<unk>', turnToken.text, '<|tu', 'rn|>', '\uE000', ' ', 'hello'),
      string({ unit: 'grapheme', maxLength: 4 }),
    )
    // The vocabulary spells a space as U+2581, so that character comes back as one.
    const content = array(piece, { maxLength: 6 }).map((pieces) =>
      pieces.join('').replaceAll('\u2581', '_'),
    )
    assert(
      property(content, content, content, (role, content, extra) => {
        const messages = [{ role, content }]
        const { text, tokens } = tokenizer.renderChat(messages, { variables: { extra } })
        const expected = `${turnToken.text}${role} ${content.trim()}</s>${extra}`
        t.equal(text, expected)
        t.same(controls(tokens), [1, turnToken.id, 2])
        // llama.cpp puts a space before text that follows a control token
        t.equal(tokenizer.decode(tokens), ` ${role} ${content.trim()}${extra && ` ${extra}`}`)
      }),
      { numRuns: 300 },
    )
  })

  t.test('templates that cannot be read', async (t) => {
    await t.rejects(openTiny(t, { chatTemplate: '{% for' }), {
      code: 'invalid_configuration',
      details: { field: 'chatTemplate' },
    })
    const modelPath = join(t.testdir(), 'broken.gguf')
    await writeTinyModel(modelPath, 'llama', { 'tokenizer.chat_template': text('{% for') })
    const logger = recordingLogger()
    const { tokenizer } = await openTiny(t, { modelPath }, logger)
    t.match(tokenizer.renderChat(messages).text, /<\|im_start\|>/)
    t.match(logger.lines.find(({ level }) => level === 'warn')?.message, /cannot be read/)
  })
})

t.test(
  'a later message of the system stays where it is said, whatever the template does',
  async (t) => {
    const each = (system: string) =>
      `{% for m in messages %}{% if m.role == 'system' and not loop.first %}${system}` +
      '{% else %}[{{ m.role }}] {{ m.content }}{% endif %}{% endfor %}'
    const first =
      "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Yes?' },
      { role: 'system', content: 'It rains.' },
      { role: 'user', content: 'So?' },
      { role: 'system', content: 'A lot.' },
    ]
    const merged = '[user] Hi[assistant] Yes?[user] It rains.\n\nSo?\n\nA lot.'
    for (const [chatTemplate, expected] of [
      [each('|{{ m.content }}|'), '[user] Hi[assistant] Yes?|It rains.|[user] So?|A lot.|'],
      [each("{{ raise_exception('no system') }}"), merged],
      [each(''), merged],
      [`${first}${each('')}`, merged],
    ] as const) {
      const { tokenizer } = await openTiny(t, { chatTemplate })
      t.ok(tokenizer.renderChat(messages).text.endsWith(expected), chatTemplate)
    }
  },
)

t.test('a text of all characters hides control tokens, or is refused', async (t) => {
  const { tokenizer } = await openTiny(t)
  const all = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, at) => String.fromCharCode(first + at)).join('')
  const everyUnit = all(0, 0xffff)
  const render = (content: string, variables = {}) =>
    tokenizer.renderChat([{ role: 'user', content }], { variables })
  const end = '<|im_end|>'
  t.ok(render(everyUnit).text.includes(everyUnit), 'there is nothing to hide')
  const almost = `${all(0, 0xf8fe)}${end}1${end}`
  t.ok(render(almost).text.includes(almost), 'one character is left to mark it')
  t.equal(render(almost).tokens.filter((id) => tokenizer.isEndOfGeneration(id)).length, 1)
  const tools = [{ description: everyUnit }]
  for (const refused of [() => render(everyUnit + end), () => render(end, { tools })]) {
    t.throws(refused, { code: 'invalid_request', message: /U\+E000 to U\+F8FF/ })
  }
})

t.test('long texts in parts give the tokens of the whole', async (t) => {
  const words = array(string({ unit: 'grapheme', maxLength: 8 }), { minLength: 1, maxLength: 40 })
  for (const kind of ['tiny', 'llama'] as const) {
    const modelPath = await tinyModel(t, kind)
    const settings = { gpuLayers: 0, contextSize: 256, mmap: true, mlock: false }
    const { native, vocabularySize } = await loadModel({ ...settings, modelPath })
    const parts = new TextParts(native, new Vocabulary(native, vocabularySize))
    assert(
      property(words, integer({ min: 1, max: 900 }), (words, times) => {
        const sample = Array.from({ length: times }, () => `${words.join(' ')} of  hers\n`).join('')
        const tokens = [...parts.tokenize(sample, false)].flat()
        return tokens.join() === Array.from(native.tokenize(sample, false)).join()
      }),
      { numRuns: 30 },
    )
    const long = 'one and two '.repeat(3000)
    t.ok([...parts.tokenize(long, false)].length > 5, `${kind}: it is cut`)
  }
})

t.test('no text makes llama.cpp tokenize more than some thousand characters at once', async (t) => {
  for (const kind of ['tiny', 'llama'] as const) {
    const modelPath = await tinyModel(t, kind)
    const settings = { gpuLayers: 0, contextSize: 256, mmap: true, mlock: false }
    const { native, vocabularySize } = await loadModel({ ...settings, modelPath })
    const lengths: number[] = []
    const watched = Object.create(native, {
      tokenize: {
        value: (text: string, special: boolean) => {
          lengths.push(text.length)
          return native.tokenize(text, special)
        },
      },
    }) as typeof native
    const vocabulary = new Vocabulary(native, vocabularySize)
    const parts = new TextParts(watched, vocabulary)
    const marks = kind === 'tiny' ? ['<|im_start|>', '<|im_end|>'] : ['<s>', '</s>']
    const whole = (text: string, special: boolean) => Array.from(native.tokenize(text, special))
    const inParts = (text: string, special: boolean) => [...parts.tokenize(text, special)].flat()

    const dense = marks.join('').repeat(3000)
    lengths.length = 0
    t.same(inParts(dense, true), whole(dense, true), `${kind}: cut between special tokens`)
    t.ok(
      Math.max(...lengths) <= 4096,
      `${kind}: soon, as they take time that grows with the square`,
    )
    const spaced = `word ${marks[1]}`.repeat(1000)
    t.same(inParts(spaced, true), whole(spaced, true), `${kind}: also before a space and one`)
    for (const character of ['😀', 'a', ' ', '\n', '7', '.', 'x.', '中', '中文，', '</']) {
      const text = character.repeat(20_000)
      lengths.length = 0
      const tokens = inParts(text, true)
      t.ok(Math.max(...lengths) <= 8193, `${kind}: ${character}`)
      const spelled = native.detokenize(Uint32Array.from(tokens), false)
      t.ok(spelled.trimStart() === text.trimStart(), `${kind}: ${character} is the same text`)
    }
    const word = constantFrom('word', ' ', '\n', '12', '.', ', ', "'s", 'é', '中', '_', ...marks)
    assert(
      property(array(word, { minLength: 1, maxLength: 12 }), boolean(), (words, special) => {
        const text = `${words.join('')}then`.repeat(800)
        return inParts(text, special).join() === whole(text, special).join()
      }),
      { numRuns: 30 },
    )
  }
})

t.test('the event loop turns while a prompt of a megabyte is tokenized', async (t) => {
  for (const native of ['ffi', 'addon'] as const) {
    const { tokenizer } = await openTiny(t, { kind: 'llama', contextSize: 8192, native })
    for (const text of ['<s></s>'.repeat(10_000), '😀'.repeat(30_000), 'x'.repeat(2 ** 20)]) {
      let parts = 0
      for (const part of tokenizer.encodeInParts!(text)) {
        parts++
        t.ok(part.length <= 4 * 8193)
      }
      t.ok(parts >= text.length / 8193, `${native}: ${parts} parts`)
    }
  }
})

t.test(
  'a template that refuses a system message gets it in front of the first question',
  async (t) => {
    const chatTemplate =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}" +
      '{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}'
    const { tokenizer } = await openTiny(t, { chatTemplate })
    const user = { role: 'user', content: 'Hi' }
    const system = { role: 'system', content: 'Be brief.' }
    t.match(tokenizer.renderChat([system, user]).text, '[user] Be brief.\nHi')
    t.equal(tokenizer.renderChat([user]).text.trim(), '[user] Hi')
    t.match(tokenizer.renderChat([user, system]).text, '[user] Hi\n\nBe brief.')
  },
)

/** The ids of a fixture's control tokens, in a vocabulary that has them. */
function controlIds({ bos, eos, controls }: TemplateFixture): Map<string, TokenId> {
  const known = ['<unk>', '<s>', '</s>']
  const ids = new Map(known.map((text, id) => [text, id]))
  const others = [bos ?? '', eos, ...controls].filter((text) => text !== '' && !ids.has(text))
  for (const [index, text] of others.entries()) ids.set(text, firstControl + index)
  return ids
}

async function open(t: Test, fixture: TemplateFixture): Promise<Tokenizer> {
  const ids = controlIds(fixture)
  const { bos, eos, template: chatTemplate } = fixture
  const metadata = {
    'tokenizer.ggml.add_bos_token': bool(bos !== undefined),
    'tokenizer.ggml.bos_token_id': uint32(ids.get(bos ?? '<s>')!),
    'tokenizer.ggml.eos_token_id': uint32(ids.get(eos)!),
  }
  const modelPath = join(t.testdir(), 'model.gguf')
  await writeTinyModel(modelPath, 'llama', metadata, [...ids.keys()].slice(3))
  return (await openTiny(t, { modelPath, chatTemplate })).tokenizer
}

/** The control tokens that a text holds, in their order. */
function controlsIn(text: string, ids: ReadonlyMap<string, TokenId>): TokenId[] {
  const texts = Array.from(ids.keys()).sort((a, b) => b.length - a.length)
  const escaped = texts.map((one) => one.replace(/[[\]|/]/g, '\\$&'))
  return Array.from(text.matchAll(new RegExp(escaped.join('|'), 'g')), ([one]) => ids.get(one)!)
}

for (const fixture of fixtures) {
  t.test(fixture.name, async (t) => {
    const tokenizer = await open(t, fixture)
    const ids = controlIds(fixture)
    const begin = fixture.bos === undefined ? [] : [ids.get(fixture.bos)!]
    const isControl = new Set(ids.values())
    const controls = (tokens: readonly TokenId[]) => tokens.filter((id) => isControl.has(id))
    const withBegin = (found: readonly TokenId[]) =>
      found[0] === begin[0] ? found : [...begin, ...found]

    for (const { about, messages, options, text } of fixture.cases) {
      const rendered = tokenizer.renderChat(messages, options)
      t.equal(rendered.text, text, about)
      t.same(controls(rendered.tokens), withBegin(controlsIn(text, ids)), `${about}: its tokens`)

      // control tokens that clients write are text, in whichever message they stand
      const evil = Array.from(ids.keys()).join('')
      const evilMessages = messages.map((message): ChatMessage => ({
        ...message,
        content: `${message.content}${evil}x`,
      }))
      const { tokens, text: evilText } = tokenizer.renderChat(evilMessages, options)
      t.ok(evilText.includes(`${evil}x`), 'they stay in the text')
      t.same(controls(tokens), controls(rendered.tokens), `${about}: no further control tokens`)
    }
  })
}
