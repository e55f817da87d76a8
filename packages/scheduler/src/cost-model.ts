import { LinearFit, type SchedulerEvent, type SequenceView } from '@cllm/core'

/** A part of a prompt. */
export interface Chunk {
  readonly tokens: number
  /** Tokens in the slot before it. */
  readonly context: number
}

/**
 * Learns what a step costs from the steps that ran, in milliseconds:
 *
 *     decode  = base + each · sequences + read · context
 *     prefill = base + again · (lengths − 1) + each · tokens + read · Σ tokens · context
 *
 * A step with both costs the sum. `lengths` is how many different lengths the chunks have. Both are
 * llama.cpp's way with a memory of its own for each sequence: a pass over the weights takes equally
 * many tokens of its sequences, the first of each in one pass, what is left in further ones.
 *
 * It starts from the costs of a small model on two CPU cores: a faster machine is believed at its
 * first step, a slower one within a few.
 */
export class CostModel {
  readonly #fit = new LinearFit({
    prior: [15, 8, 0.005, 20, 2, 3, 0.002],
    memory: 0.9,
    outlier: 2,
  })

  /** Milliseconds of one token for each of these sequences; 0 for none. */
  decodeMs(sequences: readonly Pick<SequenceView, 'computedTokens'>[]): number {
    return this.#fit.predict(
      stepFeatures(
        sequences.map((sequence) => sequence.computedTokens),
        [],
      ),
    )
  }

  /** Milliseconds of a step's prompt chunks; 0 for none. */
  prefillMs(chunks: readonly Chunk[]): number {
    return this.#fit.predict(stepFeatures([], chunks))
  }

  /** How many tokens behind `context` tokens take `ms`, not rounded; 0 where none does. */
  prefillTokens(ms: number, context: number): number {
    const [, , , base = 0, , each = 0, read = 0] = this.#fit.coefficients
    const spare = ms - base
    if (spare <= 0) return 0
    // Solves read/2 · tokens² + linear · tokens = spare, in the form that bears read = 0.
    const linear = each + read * context
    return (2 * spare) / (linear + Math.sqrt(linear ** 2 + 2 * read * spare))
  }

  /** Learns from a step that ran. */
  observe({ parts, durationMs }: Extract<SchedulerEvent, { type: 'step' }>): void {
    const decoding: number[] = []
    const chunks: Chunk[] = []
    for (const { tokens, context } of parts) {
      if (tokens === 1) decoding.push(context)
      else chunks.push({ tokens, context })
    }
    this.#fit.observe(stepFeatures(decoding, chunks), durationMs)
  }
}

/** What of a step takes time: the factors of the seven coefficients of {@link CostModel}. */
export function stepFeatures(decoding: readonly number[], chunks: readonly Chunk[]): number[] {
  let reads = 0
  for (const context of decoding) reads += context
  let tokens = 0
  let pairs = 0
  for (const chunk of chunks) {
    tokens += chunk.tokens
    pairs += chunk.tokens * (chunk.context + chunk.tokens / 2)
  }
  const lengths = new Set(chunks.map((chunk) => chunk.tokens)).size
  return [
    decoding.length > 0 ? 1 : 0,
    decoding.length,
    reads,
    chunks.length > 0 ? 1 : 0,
    Math.max(0, lengths - 1),
    tokens,
    pairs,
  ]
}
