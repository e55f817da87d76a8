import type {
  ChatMessage,
  ChatRenderOptions,
  EncodeOptions,
  RenderedChat,
  TokenDecoder,
  TokenId,
  Tokenizer,
} from '@cllm/core'
import type { ChatTemplate } from './chat-template.js'
import { Decoder } from './decoder.js'
import type { NativeModel } from './native.js'
import type { Vocabulary } from './vocabulary.js'

/** llama.cpp's tokenizer with the vocabulary and chat template of the model's file. */
export class LlamaCppTokenizer implements Tokenizer {
  readonly vocabularySize: number
  readonly maxTokenBytes: number

  readonly #model: NativeModel
  readonly #vocabulary: Vocabulary
  readonly #template: ChatTemplate

  constructor(model: NativeModel, vocabulary: Vocabulary, template: ChatTemplate) {
    this.#model = model
    this.#vocabulary = vocabulary
    this.#template = template
    this.vocabularySize = vocabulary.size
    this.maxTokenBytes = vocabulary.maxTokenBytes
  }

  encode(text: string, { addBos = true, special = true }: EncodeOptions = {}): TokenId[] {
    const tokens = text === '' ? [] : Array.from(this.#model.tokenize(text, special))
    return addBos ? this.#withBos(tokens) : tokens
  }

  decode(tokens: readonly TokenId[]): string {
    const decoder = this.createDecoder()
    let text = ''
    for (const token of tokens) text += decoder.push(token)
    return text + decoder.end()
  }

  createDecoder(before?: readonly TokenId[]): TokenDecoder {
    return new Decoder(this.#vocabulary, before)
  }

  isEndOfGeneration(token: TokenId): boolean {
    return this.#vocabulary.endOfGeneration.has(token)
  }

  renderChat(messages: readonly ChatMessage[], options?: ChatRenderOptions): RenderedChat {
    const { text, tokens } = this.#template.render(messages, options)
    return { text, tokens: this.#withBos(tokens) }
  }

  #withBos(tokens: TokenId[]): TokenId[] {
    const { bos } = this.#vocabulary
    return bos === undefined || tokens[0] === bos ? tokens : [bos, ...tokens]
  }
}
