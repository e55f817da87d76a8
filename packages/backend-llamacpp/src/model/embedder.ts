import { CllmError, type TokenId } from '@cllm/core'
import type { NativeContext } from '../native/native.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** Computes embeddings in a context of their own, which is made when it is first needed. */
export class Embedder {
  readonly #open: () => Promise<NativeContext>
  readonly #vocabulary: Vocabulary
  readonly #longest: number
  #context: NativeContext | undefined

  /** @param longest - tokens that an input may have */
  constructor(open: () => Promise<NativeContext>, vocabulary: Vocabulary, longest: number) {
    this.#open = open
    this.#vocabulary = vocabulary
    this.#longest = longest
  }

  /** The vector of these tokens, pooled as the model says and of length 1. */
  async embed(tokens: readonly TokenId[]): Promise<number[]> {
    for (const token of tokens) this.#vocabulary.check(token)
    if (tokens.length === 0 || tokens.length > this.#longest) {
      throw new CllmError(
        'prompt_too_long',
        `input: expected 1 to ${this.#longest} tokens for an embedding, got ${tokens.length}`,
        { details: { field: 'input', promptTokens: tokens.length, contextSize: this.#longest } },
      )
    }
    const context = (this.#context ??= await this.#open())
    context.initBatch(tokens.length)
    context.addToBatch(0, 0, tokens, [tokens.length - 1])
    try {
      await context.decodeBatch()
      return normalized(context.getEmbedding(tokens.length))
    } finally {
      context.disposeSequence(0)
    }
  }

  async dispose(): Promise<void> {
    await this.#context?.dispose()
    this.#context = undefined
  }
}

function normalized(vector: Float32Array): number[] {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0))
  return Array.from(vector, (value) => (length === 0 ? 0 : value / length))
}
