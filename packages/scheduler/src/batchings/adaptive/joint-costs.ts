import type { Chunk, StepCostModel } from '@cllm/core'
import { LinearFit } from '@cllm/core/portable'

/** Tokens of a step from which on a further one may cost more than those before. */
export const knots: readonly number[] = [64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512]
/** How far what decodes and attention take apart may be off in a joint step, as a share. */
const spreadApart = 0.3

/** Sequences that decode in a step. */
export interface Decodes {
  readonly count: number
  /** What decoding them takes alone. */
  readonly ms: number
}

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

  /** Milliseconds of these chunks beside these decodes. */
  predictMs(decodes: Decodes, chunks: readonly Chunk[]): number {
    if (this.#fit === undefined) return decodes.ms + this.apart.prefillMs(chunks)
    return this.#fit.predict(this.#features(decodes, chunks))
  }

  /**
   * Milliseconds that a joint step saves of one that decodes and another one with a chunk that takes as
   * long, where the saving shows best.
   */
  savedMs(decodes: Decodes, context: number): number {
    const tokens = Math.max(knots[0] ?? 1, this.apart.prefillTokens(decodes.ms, context))
    const chunks = [{ tokens, context }]
    return decodes.ms + this.apart.prefillMs(chunks) - this.predictMs(decodes, chunks)
  }

  /** Learns from a step. */
  observe(decodes: Decodes, chunks: readonly Chunk[], durationMs: number): void {
    this.#fit ??= fitFrom(this.apart)
    this.#fit.observe(this.#features(decodes, chunks), durationMs)
  }

  #features({ count, ms }: Decodes, chunks: readonly Chunk[]): number[] {
    let tokens = 0
    let attentionMs = 0
    for (const chunk of chunks) {
      tokens += chunk.tokens
      attentionMs +=
        this.apart.tokensMs(chunk.tokens, chunk.context) - this.apart.tokensMs(1) * chunk.tokens
    }
    const beyond = knots.map((knot) => Math.max(0, count + tokens - knot))
    return [ms, attentionMs, 1, tokens, ...beyond]
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
