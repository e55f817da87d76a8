import { CllmError, type TokenId } from '@cllm/core'
import type { NativeContext } from '../native/native.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** What one pass takes. */
export interface EmbeddingLimits {
  /** Of all inputs together. */
  readonly tokens: number
  readonly inputs: number
}

/** Computes embeddings in a context of their own, which is made when it is first needed. */
export class Embedder {
  readonly #open: () => Promise<NativeContext>
  readonly #vocabulary: Vocabulary
  readonly #limits: EmbeddingLimits
  #context: NativeContext | undefined

  constructor(open: () => Promise<NativeContext>, vocabulary: Vocabulary, limits: EmbeddingLimits) {
    this.#open = open
    this.#vocabulary = vocabulary
    this.#limits = limits
  }

  /** The vectors of these inputs, computed in one pass: pooled as the model says and of length 1. */
  async embed(inputs: readonly (readonly TokenId[])[]): Promise<number[][]> {
    for (const tokens of inputs) this.#check(tokens)
    const total = inputs.reduce((sum, tokens) => sum + tokens.length, 0)
    if (total > this.#limits.tokens || inputs.length > this.#limits.inputs) {
      throw new CllmError(
        'backend_failed',
        `expected at most ${this.#limits.inputs} inputs of ${this.#limits.tokens} tokens, got ` +
          `${inputs.length} of ${total}`,
      )
    }
    const context = (this.#context ??= await this.#open())
    context.initBatch(total)
    for (const [sequence, tokens] of inputs.entries()) {
      context.addToBatch(sequence, 0, tokens, [tokens.length - 1])
    }
    try {
      await context.decodeBatch()
      let end = 0
      return inputs.map((tokens, sequence) =>
        finish(context.getEmbedding((end += tokens.length), sequence)),
      )
    } finally {
      for (const sequence of inputs.keys()) context.disposeSequence(sequence)
    }
  }

  async dispose(): Promise<void> {
    await this.#context?.dispose()
    this.#context = undefined
  }

  #check(tokens: readonly TokenId[]): void {
    for (const token of tokens) this.#vocabulary.check(token)
    const { tokens: longest } = this.#limits
    if (tokens.length > 0 && tokens.length <= longest) return
    throw new CllmError(
      'prompt_too_long',
      `input: it is too large to process: expected 1 to ${longest} tokens for an embedding, got ` +
        String(tokens.length),
      { details: { field: 'input', promptTokens: tokens.length, contextSize: longest } },
    )
  }
}

/** The one number of a model that compares texts stays as it is. */
const finish = (vector: Float32Array): number[] =>
  vector.length === 1 ? [...vector] : normalized(vector)

function normalized(vector: Float32Array): number[] {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0))
  return Array.from(vector, (value) => (length === 0 ? 0 : value / length))
}
