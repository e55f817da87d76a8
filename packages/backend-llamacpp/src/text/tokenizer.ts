import type {
  ChatMessage,
  ChatRenderOptions,
  DecoderOptions,
  EncodeOptions,
  InfillTokens,
  RenderedChat,
  TokenDecoder,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import type { ChatTemplate } from './chat-template.js'
import type { TextParts } from './text-parts.js'
import type { Vocabulary } from './vocabulary.js'

/** llama.cpp's tokenizer with the vocabulary and chat template of the model's file. */
export class LlamaCppTokenizer implements Tokenizer {
  readonly vocabularySize: number
  readonly maxTokenBytes: number
  readonly infill?: InfillTokens

  readonly #parts: TextParts
  readonly #vocabulary: Vocabulary
  readonly #template: ChatTemplate

  constructor(parts: TextParts, vocabulary: Vocabulary, template: ChatTemplate) {
    this.#parts = parts
    this.#vocabulary = vocabulary
    this.#template = template
    this.vocabularySize = vocabulary.size
    this.maxTokenBytes = vocabulary.maxTokenBytes
    if (vocabulary.infill !== undefined) this.infill = vocabulary.infill
  }

  encode(text: string, options?: EncodeOptions): TokenId[] {
    return [...this.encodeInParts(text, options)].flat()
  }

  encodeInParts(
    text: string,
    { addBos = true, special = true }: EncodeOptions = {},
  ): Iterable<TokenId[]> {
    const parts = this.#parts.tokenize(text, special)
    return addBos ? this.#withBos(parts) : parts
  }

  decode(tokens: readonly TokenId[]): string {
    const decoder = this.createDecoder()
    let text = ''
    for (const token of tokens) text += decoder.push(token)
    return text + decoder.end()
  }

  bytesOf(token: TokenId): Uint8Array {
    return this.#vocabulary.bytes(token)
  }

  createDecoder(before?: readonly TokenId[], options?: DecoderOptions): TokenDecoder {
    return new Decoder(this.#vocabulary, before, options?.marks)
  }

  isEndOfGeneration(token: TokenId): boolean {
    return this.#vocabulary.endOfGeneration.has(token)
  }

  renderChat(messages: readonly ChatMessage[], options?: ChatRenderOptions): RenderedChat {
    const { text, tokens } = this.renderChatInParts(messages, options)
    return { text, tokens: [...tokens].flat() }
  }

  renderChatInParts(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): { readonly text: string; readonly tokens: Iterable<TokenId[]> } {
    const { text, tokens } = this.#template.render(messages, options)
    return { text, tokens: this.#withBos(tokens) }
  }

  *#withBos(parts: Iterable<TokenId[]>): Generator<TokenId[], void> {
    const { bos } = this.#vocabulary
    let isFirst = true
    for (const part of parts) {
      if (isFirst && bos !== undefined && part[0] !== bos) yield [bos]
      isFirst = false
      yield part
    }
    if (isFirst && bos !== undefined) yield [bos]
  }
}

const space = 0x20
/** An incomplete character spans at most this many tokens. */
const overlap = 3

/**
 * Turns tokens into text, holding back incomplete characters. Bytes that are no UTF-8 become
 * U+FFFD.
 */
export class Decoder implements TokenDecoder {
  readonly #vocabulary: Vocabulary
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #atStart: boolean
  readonly #marks: readonly string[]

  /** @param marks - texts in which control tokens are shown */
  constructor(
    vocabulary: Vocabulary,
    before: readonly TokenId[] = [],
    marks: readonly string[] = [],
  ) {
    this.#vocabulary = vocabulary
    this.#marks = marks
    this.#atStart = vocabulary.addsSpace && before.length === 0
    if (before.length > 0) this.#resume(before)
  }

  push(token: TokenId): string {
    let bytes = this.#vocabulary.bytes(token)
    if (this.#atStart && token !== this.#vocabulary.bos) {
      this.#atStart = false
      if (bytes[0] === space) bytes = bytes.subarray(1)
    }
    if (bytes.length === 0) return this.#marks.length === 0 ? '' : this.#shown(token)
    return this.#decoder.decode(bytes, { stream: true })
  }

  end(): string {
    return ''
  }

  #shown(token: TokenId): string {
    const text = this.#vocabulary.controlText(token)
    return text !== '' && this.#marks.some((mark) => mark.includes(text)) ? text : ''
  }

  #resume(before: readonly TokenId[]): void {
    const last: Uint8Array[] = []
    for (let index = before.length - 1; index >= 0 && last.length < overlap; index--) {
      const bytes = this.#vocabulary.bytes(before[index] ?? -1)
      if (bytes.length > 0) last.unshift(bytes)
    }
    for (const bytes of last) this.#decoder.decode(bytes, { stream: true })
  }
}
