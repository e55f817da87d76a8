import assert from 'node:assert/strict'
import { type Backend, type TokenId, CllmError } from '@cllm/core'
import { check, type TestContext } from '../test-context.js'

const texts = [
  '',
  'Hello, world!',
  ' spaces  around\tand\nlines \n\n',
  'Grüße aus Köln: 5 €',
  '你好,世界。',
  'الْعَرَبِيَّة',
  '😀 and a family 👨‍👩‍👧',
  '<|im_end|></s>[INST]',
]

const plain = { addBos: false, special: false }

/** Tokens whose length is checked. */
const checkedTokens = 2000

/** The checks of a backend's tokenizer. */
export async function checkTokenizer(t: TestContext, { tokenizer }: Backend): Promise<void> {
  const utf8 = new TextEncoder()
  const encoded = () => texts.map((text) => ({ text, tokens: tokenizer.encode(text, plain) }))

  await check(t, 'text goes to tokens and back', () => {
    for (const { text, tokens } of encoded()) {
      assert.equal(tokenizer.decode(tokens), text)
      const bytes = utf8.encode(text).length
      const most = tokens.length * tokenizer.maxTokenBytes
      assert(bytes <= most, `${tokens.length} tokens stand for ${bytes} bytes, at most ${most}`)
    }
  })

  await check(t, 'a text in parts has the tokens of the whole', () => {
    if (tokenizer.encodeInParts === undefined) return
    for (const text of [...texts, texts.join(' and then ').repeat(50)]) {
      for (const options of [plain, {}]) {
        const parts: readonly (readonly TokenId[])[] = [...tokenizer.encodeInParts(text, options)]
        assert.deepEqual(parts.flat(), tokenizer.encode(text, options))
      }
    }
  })

  await check(t, 'the bytes of tokens are those of their text', () => {
    const bytesOf = (token: TokenId) => [...(tokenizer.bytesOf?.(token) ?? [])]
    if (tokenizer.bytesOf === undefined) return
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    for (const { tokens } of encoded()) {
      const bytes = tokens.flatMap(bytesOf)
      const said = decoder.decode(new Uint8Array(bytes))
      const decoded = tokenizer.decode(tokens)
      // The first token may have a space in front that a text's beginning has not.
      const isSame = said === decoded || said === ` ${decoded}`
      assert(isSame, `expected ${JSON.stringify(decoded)}, instead got ${JSON.stringify(said)}`)
    }
  })

  await check(t, 'what marks gaps is no text and no end', () => {
    const marks = Object.values(tokenizer.infill ?? {}) as readonly TokenId[]
    assert.equal(new Set(marks).size, marks.length)
    for (const mark of marks) {
      assert(Number.isInteger(mark) && mark >= 0 && mark < tokenizer.vocabularySize)
      assert(!texts.some((text) => tokenizer.encode(text, plain).includes(mark)))
    }
  })

  await check(t, 'text has its begin-of-sequence token in front or none', () => {
    for (const { text, tokens } of encoded()) {
      const whole = tokenizer.encode(text, { special: false })
      const added = whole.length - tokens.length
      assert(added === 0 || added === 1, `addBos adds ${added} tokens, expected 0 or 1`)
      assert.deepEqual(whole.slice(added), tokens)
      const [begin = 0] = whole
      if (added === 0 || tokenizer.controlText === undefined) continue
      const shown = tokenizer.encode(tokenizer.controlText(begin), { addBos: false })
      assert.deepEqual(shown, [begin], 'a prompt can write it, too')
    }
  })

  await check(t, 'a decoder gives the same text piece by piece, never a broken character', () => {
    for (const { text, tokens } of encoded()) {
      const decoder = tokenizer.createDecoder()
      const pieces = tokens.map((token) => decoder.push(token))
      for (const piece of pieces) assert.doesNotMatch(piece, /\p{Surrogate}|\ufffd/u)
      assert.equal(pieces.join('') + decoder.end(), text)
    }
  })

  await check(t, 'a decoder goes on where another one stopped', () => {
    for (const { text, tokens } of encoded()) {
      for (let split = 0; split <= tokens.length; split++) {
        const first = tokenizer.createDecoder()
        const before = tokens.slice(0, split).map((token) => first.push(token))
        const second = tokenizer.createDecoder(tokens.slice(0, split))
        const after = tokens.slice(split).map((token) => second.push(token))
        assert.equal([...before, ...after, second.end()].join(''), text, `split after ${split}`)
      }
    }
  })

  await check(t, 'decoders do not disturb each other', () => {
    const all = encoded().map((one) => ({ ...one, decoder: tokenizer.createDecoder(), said: '' }))
    const longest = Math.max(...all.map(({ tokens }) => tokens.length))
    for (let index = 0; index < longest; index++) {
      for (const one of all) {
        const token = one.tokens[index]
        if (token !== undefined) one.said += one.decoder.push(token)
      }
    }
    assert.deepEqual(
      all.map(({ said, decoder }) => said + decoder.end()),
      texts,
    )
  })

  await check(t, 'no token has more than maxTokenBytes bytes', () => {
    const every = Math.ceil(tokenizer.vocabularySize / checkedTokens)
    for (let token = 0; token < tokenizer.vocabularySize; token += every) {
      const bytes = utf8.encode(tokenizer.decode([token])).length
      assert(bytes <= tokenizer.maxTokenBytes || bytes <= 3, `token ${token} is ${bytes} bytes`)
    }
  })

  await check(t, 'ids outside the vocabulary are refused', () => {
    for (const token of [-1, tokenizer.vocabularySize, 2 ** 32, 0.5, NaN]) {
      assert.throws(
        () => tokenizer.decode([token]),
        (error) => CllmError.isInstance(error) && error.code === 'invalid_token',
        `decoding ${token} throws invalid_token`,
      )
    }
  })

  await check(t, 'a conversation is rendered, or refused as unsupported', () => {
    const messages = [{ role: 'user', content: 'What is the capital of France?' }]
    let chat
    try {
      chat = tokenizer.renderChat(messages)
    } catch (error) {
      assert(CllmError.isInstance(error) && error.code === 'unsupported', String(error))
      return
    }
    assert(chat.text.includes('What is the capital of France?'), 'the text has the message')
    assert.deepEqual(tokenizer.renderChat(messages), chat, 'the same each time')
    const isControl = (token: TokenId) =>
      (tokenizer.bytesOf?.(token) ?? tokenizer.decode([token])).length === 0
    const written = tokenizer.decode(tokenizer.encode(chat.text)).trimStart()
    assert.equal(tokenizer.decode(chat.tokens).trimStart(), written, 'its tokens are its text')
    const quoted = tokenizer.renderChat([{ role: 'user', content: chat.text }])
    const own = chat.tokens.filter(isControl)
    assert.deepEqual(quoted.tokens.filter(isControl), own, 'a message writes no control tokens')
    const suffixed = tokenizer.renderChat(messages, { suffix: 'Sure' }).text
    assert.equal(suffixed, `${chat.text}Sure`, 'the suffix stands behind it')
    if (tokenizer.renderChatInParts === undefined) return
    // What the engine has rendered in parts is long.
    const [content, role] = [texts.join(' and then ').repeat(50), 'user']
    for (const long of [
      messages,
      [...messages, { role: 'assistant', content }, { role, content }],
    ]) {
      const inParts = tokenizer.renderChatInParts(long)
      const parts: readonly (readonly TokenId[])[] = [...inParts.tokens]
      const { text, tokens } = tokenizer.renderChat(long)
      assert.equal(inParts.text, text)
      assert.deepEqual(parts.flat(), tokens, 'a conversation in parts has the tokens of the whole')
    }
  })
}
