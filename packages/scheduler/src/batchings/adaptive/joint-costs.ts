import type { Chunk, StepCostModel } from '@cllm/core'
import { LinearFit } from '@cllm/core/portable'

/** Prompt tokens from which on a further one may cost more than those before. */
export const knots: readonly number[] = [64, 128, 256, 512]
/** How far what decodes and attention take apart may be off in a joint step, as a share. */
const spreadApart = 0.3

/**
 * Learns what a step costs that decodes and computes prompts together:
 *
 *     share · decode alone + share · attention alone + base + each · tokens + Σ more · (tokens beyond a knot)
 *
 * A GPU reads its weights as long as it decodes, and computes some prompt tokens meanwhile for
 * nothing: up to a knot they cost little, and then as much as in a step of their own. On a CPU a
 * joint step costs as much as two. Starts from costs that add up.
 */
export class JointCosts {
  #fit: LinearFit | undefined

  /** @param apart - costs of steps that do one of the two */
  constructor(private readonly apart: StepCostModel) {}

  /** Milliseconds of these chunks beside a decode that takes `decodeMs` alone. */
  predictMs(decodeMs: number, chunks: readonly Chunk[]): number {
    if (this.#fit === undefined) return decodeMs + this.apart.prefillMs(chunks)
    return this.#fit.predict(this.#features(decodeMs, chunks))
  }

  /**
   * Milliseconds that a joint step saves of one that decodes and another one with a chunk that takes as
   * long, where the saving shows best.
   */
  savedMs(decodeMs: number, context: number): number {
    const tokens = Math.max(knots[0] ?? 1, this.apart.prefillTokens(decodeMs, context))
    const chunks = [{ tokens, context }]
    return decodeMs + this.apart.prefillMs(chunks) - this.predictMs(decodeMs, chunks)
  }

  /** Learns from a step. */
  observe(decodeMs: number, chunks: readonly Chunk[], durationMs: number): void {
    this.#fit ??= fitFrom(this.apart)
    this.#fit.observe(this.#features(decodeMs, chunks), durationMs)
  }

  #features(decodeMs: number, chunks: readonly Chunk[]): number[] {
    let tokens = 0
    let attentionMs = 0
    for (const chunk of chunks) {
      tokens += chunk.tokens
      attentionMs +=
        this.apart.tokensMs(chunk.tokens, chunk.context) - this.apart.tokensMs(1) * chunk.tokens
    }
    return [
      decodeMs,
      attentionMs,
      1,
      tokens,
      ...knots.map((knot) => Math.max(0, tokens - knot)),
    ]
  }
}

function fitFrom(apart: StepCostModel): LinearFit {
  const base = apart.prefillMs([{ tokens: 0, context: 0 }])
  const each = apart.tokensMs(1)
  return new LinearFit({
    prior: [1, 1, base, each, ...knots.map(() => 0)],
    spread: [spreadApart, spreadApart, base + each, each, ...knots.map(() => each)],
    memory: 0.9,
    outlier: 2,
  })
}
