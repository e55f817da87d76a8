import { type NativeFunctions, runAsync } from './bind-functions.js'
import type { Pointer } from './structs.js'
import type { NativeAdapter } from '../native-context.js'
import type { NativeModel, NativePairFormat } from '../native-model.js'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/**
 * A model and its vocabulary, used through the C API. An unknown token id would make llama.cpp end the process, so
 * every call here checks its ids.
 */
export class FfiModel implements NativeModel {
  readonly vocabularySize: number
  readonly #ownVocabulary: Pointer
  #isClosed = false

  constructor(
    private readonly functions: NativeFunctions,
    private readonly model: Pointer,
  ) {
    this.#ownVocabulary = functions.llama_model_get_vocab(model)
    this.vocabularySize = functions.llama_vocab_n_tokens(this.#ownVocabulary)
  }

  /**
   * The C pointer, from which contexts are made.
   * @throws Error if the model was disposed of
   */
  get native(): Pointer {
    this.#checkOpen()
    return this.model
  }

  /** @throws Error if the model was disposed of */
  get #vocabulary(): Pointer {
    this.#checkOpen()
    return this.#ownVocabulary
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new Error('the model was disposed of')
  }

  /** Whether the model must not be used any more. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** @throws RangeError for a token outside the vocabulary */
  #check(token: number): void {
    if (Number.isInteger(token) && token >= 0 && token < this.vocabularySize) return
    throw new RangeError(`expected a token from 0 to ${this.vocabularySize - 1}, got ${token}`)
  }

  tokenize(text: string, special: boolean): Uint32Array {
    const vocabulary = this.#vocabulary
    const { llama_tokenize: tokenize } = this.functions
    const bytes = encoder.encode(text)
    for (let room = bytes.length + 2; ;) {
      const tokens = new Int32Array(new ArrayBuffer(4 * room))
      const count = tokenize(vocabulary, bytes, bytes.length, tokens, room, false, special)
      if (count >= 0) return new Uint32Array(tokens.buffer, 0, count).slice()
      room = -count
    }
  }

  detokenize(tokens: Uint32Array, special = false): string {
    for (const token of tokens) this.#check(token)
    const vocabulary = this.#vocabulary
    const { llama_detokenize: detokenize } = this.functions
    for (let room = Math.max(64, 8 * tokens.length); ;) {
      const text = new Uint8Array(new ArrayBuffer(room))
      const count = detokenize(vocabulary, tokens, tokens.length, text, room, false, special)
      if (count >= 0) return decoder.decode(text.subarray(0, count))
      room = -count
    }
  }

  getTokenString(token: number): string {
    this.#check(token)
    return this.functions.llama_vocab_get_text(this.#vocabulary, token) ?? ''
  }

  getTokenAttributes(token: number): number {
    this.#check(token)
    return this.functions.llama_vocab_get_attr(this.#vocabulary, token)
  }

  isEogToken(token: number): boolean {
    this.#check(token)
    return this.functions.llama_vocab_is_eog(this.#vocabulary, token)
  }

  readonly getVocabularyType = () => this.functions.llama_vocab_type(this.#vocabulary)
  readonly shouldPrependBosToken = () => this.functions.llama_vocab_get_add_bos(this.#vocabulary)
  readonly tokenBos = () => this.functions.llama_vocab_bos(this.#vocabulary)
  readonly tokenEos = () => this.functions.llama_vocab_eos(this.#vocabulary)
  readonly prefixToken = () => this.functions.llama_vocab_fim_pre(this.#vocabulary)
  readonly suffixToken = () => this.functions.llama_vocab_fim_suf(this.#vocabulary)
  readonly middleToken = () => this.functions.llama_vocab_fim_mid(this.#vocabulary)
  readonly slidingWindow = () => this.functions.llama_model_n_swa(this.native)
  readonly getTrainContextSize = () => this.functions.llama_model_n_ctx_train(this.native)
  readonly getTotalParameters = () => Number(this.functions.llama_model_n_params(this.native))
  readonly getTotalSize = () => Number(this.functions.llama_model_size(this.native))

  isRecurrent(): boolean {
    const { llama_model_is_recurrent: isRecurrent, llama_model_is_hybrid: isHybrid } =
      this.functions
    return isRecurrent(this.native) || isHybrid(this.native)
  }

  /** The model's own chat template. */
  chatTemplate(): string | undefined {
    return this.functions.llama_model_chat_template(this.native, null) ?? undefined
  }

  pairFormat(): NativePairFormat {
    const functions = this.functions
    const vocabulary = this.#vocabulary
    const eos = functions.llama_vocab_eos(vocabulary)
    const sep = functions.llama_vocab_sep(vocabulary)
    const end = eos >= 0 ? eos : sep
    const ends = functions.llama_vocab_get_add_eos(vocabulary) && end >= 0 ? [end] : []
    const separates = functions.llama_vocab_get_add_sep(vocabulary) && sep >= 0 ? [sep] : []
    const template = functions.llama_model_chat_template(this.native, 'rerank') ?? undefined
    return { between: [...ends, ...separates], after: ends, template }
  }

  /** Makes every later use throw. */
  close(): void {
    this.#isClosed = true
  }

  /** Frees the memory. Call this once, after {@link close}, when all its contexts were disposed of. */
  free(): void {
    this.functions.llama_model_free(this.model)
  }
}

/** An adapter that was loaded through the C API. */
export class FfiAdapter implements NativeAdapter {
  #isFreed = false

  private constructor(
    private readonly functions: NativeFunctions,
    private readonly model: FfiModel,
    private readonly adapter: Pointer,
  ) {}

  /** Reads an adapter for a model; undefined if llama.cpp cannot: its log says why. */
  static async load(
    functions: NativeFunctions,
    model: FfiModel,
    path: string,
  ): Promise<FfiAdapter | undefined> {
    const adapter = await runAsync(functions.llama_adapter_lora_init, model.native, path)
    return adapter === null ? undefined : new FfiAdapter(functions, model, adapter)
  }

  /** The C pointer, which contexts of the adapter's model take. */
  get native(): bigint {
    if (this.#isFreed || this.adapter === null) throw new Error('the adapter was freed')
    return this.adapter
  }

  free(): void {
    // a model frees its adapters itself
    if (this.#isFreed || this.model.isClosed) return
    this.#isFreed = true
    this.functions.llama_adapter_lora_free(this.adapter)
  }
}
