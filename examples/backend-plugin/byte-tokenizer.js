// @ts-check
import { CllmError } from '@cllm/core'

const end = 256

/**
 * A token is a byte of UTF-8; one more ends the text.
 *
 * @type {import('@cllm/core').Tokenizer}
 */
export const byteTokenizer = {
  vocabularySize: 257,
  maxTokenBytes: 1,
  encode: (text) => [...Buffer.from(text)],
  decode(tokens) {
    const wrong = tokens.find((token) => !Number.isInteger(token) || token < 0 || token > end)
    if (wrong !== undefined) {
      throw new CllmError('invalid_token', `expected token ids from 0 to ${end}, got ${wrong}`)
    }
    return Buffer.from(tokens.filter((token) => token !== end)).toString()
  },
  createDecoder(before = []) {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    decoder.decode(Uint8Array.from(before.filter((token) => token !== end)), { stream: true })
    return {
      push: (token) =>
        token === end ? '' : decoder.decode(Uint8Array.of(token), { stream: true }),
      end: () => '', // what is incomplete is dropped
    }
  },
  isEndOfGeneration: (token) => token === end,
  renderChat(messages, { suffix = '' } = {}) {
    const lines = messages.map(({ role, content }) => `${role}: ${content}\n`)
    const text = lines.join('') + suffix
    return { text, tokens: byteTokenizer.encode(text) }
  },
}
