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
import {
  fakeInfillTokens,
  fakePieces,
  fakeSpecialTokens,
  fakeTokenIds,
  firstByteToken,
} from './fake-vocabulary.js'

const utf8 = new TextEncoder()
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
