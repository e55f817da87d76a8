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
import { Decoder } from './decoder.js'
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
