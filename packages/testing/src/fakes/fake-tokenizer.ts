import {
  type ChatMessage,
  type ChatRenderOptions,
  type EncodeOptions,
  type InfillTokens,
  type RenderedChat,
  type TokenDecoder,
  type TokenId,
  type Tokenizer,
  CllmError,
  mediaPlace,
} from '@cllm/core'

/** The special tokens of the fake model, by their text; their ids are 0 to 3. */
export const fakeSpecialTokens = ['<s>', '</s>', '<|im_start|>', '<|im_end|>'] as const

/** Ids of the fake model's special tokens. */
export const fakeTokenIds = Object.freeze({
  beginOfSequence: 0,
  endOfSequence: 1,
  messageStart: 2,
  messageEnd: 3,
})

/** The id of byte 0; the tokens of the other bytes follow. */
export const firstByteToken: TokenId = fakeSpecialTokens.length

/** What marks gaps in a fake model that can fill them. */
export const fakeInfillTokens: InfillTokens = Object.freeze({
  prefix: firstByteToken + 1,
  suffix: firstByteToken + 2,
  middle: firstByteToken + 3,
})

/** The id of the first token that is neither special nor a single byte. */
export const firstWordToken: TokenId = firstByteToken + 256

const words =
  ' the, a, and, of, to, was, cat, dog, sun, sea, ran, sat, saw, big, red, old, day, night, house,' +
  ' tree, little, happy, story, time, once, upon, friend, play,Once,The,ing,ed'

/** Characters cut in two: a token that ends inside a character, and what completes it. */
const cutCharacters = [
  { head: [0xe2, 0x82], tail: [0xac] }, // €
  { head: [0x20, 0xc3], tail: [0xa9] }, // é after a space
  { head: [0xf0, 0x9f], tail: [0x98, 0x80] }, // 😀
]

const utf8 = new TextEncoder()

/** The bytes of each token; a special token has none. 300 tokens in all. */
export const fakePieces: readonly Uint8Array[] = [
  ...fakeSpecialTokens.map(() => new Uint8Array()),
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...words.split(',').map((word) => utf8.encode(word)),
  ...cutCharacters.map(({ head }) => Uint8Array.from(head)),
  ...[' für', '你', 'ß '].map((text) => utf8.encode(text)),
  Uint8Array.of(0x98, 0x80),
  Uint8Array.of(0xac, 0x20),
]

/** The id of the first token that only continues a character. */
export const firstTailToken: TokenId = fakePieces.length - 2

const idOf = (bytes: readonly number[]): TokenId =>
  fakePieces.findIndex(
    (piece) => piece.length > 0 && Buffer.from(piece).equals(Uint8Array.from(bytes)),
  )

/** For each token that ends inside a character the token that completes it. */
export const completions: ReadonlyMap<TokenId, TokenId> = new Map(
  cutCharacters.map(({ head, tail }) => [idOf(head), idOf(tail)]),
)

const longestPiece = Math.max(...fakePieces.map((piece) => piece.length))
/** The tokens of several bytes that begin with each byte, the longest first; most bytes have none. */
const longerFrom = Array.from({ length: 256 }, (_, byte) =>
  fakePieces
    .map((piece, id) => ({ piece: [...piece], id }))
    .filter(({ piece }) => piece.length > 1 && piece[0] === byte)
    .toSorted((one, other) => other.piece.length - one.piece.length),
)
const specialPattern = /(<s>|<\/s>|<\|im_start\|>|<\|im_end\|>)/

/**
 * A tokenizer of 300 tokens without a model: every byte, some words, and some tokens that end inside
 * a UTF-8 character. Any text goes there and back unchanged. Special tokens have no text of their
 * own when decoded. Chats are rendered in the ChatML form.
 */
export class FakeTokenizer implements Tokenizer {
  readonly infill?: InfillTokens
  readonly vocabularySize = fakePieces.length
  readonly maxTokenBytes = Math.max(longestPiece, ...fakeSpecialTokens.map((text) => text.length))

  /** @param canInfill - takes the bytes 1, 2 and 3 for the marks of gaps */
  constructor(canInfill = false) {
    if (canInfill) this.infill = fakeInfillTokens
  }

  /** The longest token that fits, again and again. */
  encode(text: string, options: EncodeOptions = {}): TokenId[] {
    const tokens: TokenId[] = options.addBos === false ? [] : [fakeTokenIds.beginOfSequence]
    const parts = options.special === false ? [text] : text.split(specialPattern)
    for (const part of parts) {
      const special =
        options.special === false ? -1 : fakeSpecialTokens.findIndex((s) => s === part)
      if (special >= 0) tokens.push(special)
      else pushLongestPieces(tokens, utf8.encode(part))
    }
    return tokens
  }

  decode(tokens: readonly TokenId[]): string {
    const decoder = this.createDecoder()
    return tokens.map((token) => decoder.push(token)).join('') + decoder.end()
  }

  bytesOf(token: TokenId): Uint8Array {
    return fakePieces[token] ?? new Uint8Array()
  }

  controlText(token: TokenId): string {
    return fakeSpecialTokens[token] ?? ''
  }

  createDecoder(before: readonly TokenId[] = []): TokenDecoder {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
    const push = (token: TokenId) => decoder.decode(this.#piece(token), { stream: true })
    for (const token of before) push(token)
    return { push, end: () => '' }
  }

  isEndOfGeneration(token: TokenId): boolean {
    return token === fakeTokenIds.endOfSequence || token === fakeTokenIds.messageEnd
  }

  /** Special tokens in the messages' own text stay plain text. */
  renderChat(messages: readonly ChatMessage[], options: ChatRenderOptions = {}): RenderedChat {
    let text = ''
    const tokens: TokenId[] = [fakeTokenIds.beginOfSequence]
    const add = (part: string, special: boolean) => {
      text += part
      for (const token of this.encode(part, { addBos: false, special })) tokens.push(token)
    }
    const { addGenerationPrompt = true, continueFinalMessage = false, suffix = '' } = options
    for (const [index, { role, content, media = [] }] of messages.entries()) {
      add('<|im_start|>', true)
      const said = `${role}\n${content}`
      let from = 0
      for (const { at } of media) {
        const end = role.length + 1 + at
        add(said.slice(from, end), false)
        tokens.push(mediaPlace)
        from = end
      }
      add(said.slice(from), false)
      if (continueFinalMessage && index === messages.length - 1) return { text, tokens }
      add('<|im_end|>', true)
      add('\n', false)
    }
    if (addGenerationPrompt) {
      add('<|im_start|>', true)
      add('assistant\n', false)
    }
    add(suffix, true)
    return { text, tokens }
  }

  #piece(token: TokenId): Uint8Array {
    const piece = fakePieces[token]
    if (piece !== undefined) return piece
    throw new CllmError(
      'invalid_token',
      `Token ${token} is outside the vocabulary: expected an integer from 0 to ${fakePieces.length - 1}`,
      { details: { token, vocabularySize: fakePieces.length } },
    )
  }
}

function pushLongestPieces(tokens: TokenId[], bytes: Uint8Array): void {
  let start = 0
  while (start < bytes.length) {
    const byte = bytes[start]!
    let [token, length] = [firstByteToken + byte, 1]
    for (const { piece, id } of longerFrom[byte]!) {
      let same = 1
      while (same < piece.length && bytes[start + same] === piece[same]) same++
      if (same < piece.length) continue
      ;[token, length] = [id, same]
      break
    }
    tokens.push(token)
    start += length
  }
}
