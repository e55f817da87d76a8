import { type Chunk, type StepCostModel, LinearFit } from '@cllm/core'
import { fewestTokens } from '../../kit/choose-chunks.js'

/** Sequences that decode in a step. */
export interface Decodes {
  readonly count: number
  /** What decoding them takes alone, in milliseconds. */
  readonly ms: number
}

/**
 * Learns what a step costs that decodes and computes prompts together, from what the two cost apart:
 *
 *     attention of both + longer · (the longer of the two) + shorter · (the shorter one)
 *
 * each without its attention. On a CPU the two add up. A GPU reads its weights as long as it decodes,
 * and computes some prompt tokens meanwhile for nothing, so that `shorter` is as good as 0 (the
 * roofline model: Williams et al., CACM 2009). Starts from costs that add up.
 */
export class JointCosts {
  /** What was learned. */
  readonly fit = new LinearFit({ prior: [1, 1, 1], spread: [0.3, 0.3, 1], memory: 0.9, outlier: 2 })

  /** @param apart - costs of steps that do one of the two */
  constructor(private readonly apart: StepCostModel) {}

  /** Milliseconds of these chunks beside these decodes. */
  predictMs(decodes: Decodes, chunks: readonly Chunk[]): number {
    return this.fit.predict(this.#features(decodes, chunks))
  }

  /** As many prompt tokens as take as long as these decodes, both without attention. */
  tokensBeside(decodes: Decodes): number {
    const each = this.apart.tokensMs(1)
    const spare = this.#weightsMs(decodes) - this.apart.prefillMs([{ tokens: 0, context: 0 }])
    return Math.max(fewestTokens, Math.floor(each > 0 ? spare / each : 0))
  }

  /** Milliseconds that a joint step saves of one that decodes and another one, where it shows best. */
  savedMs(decodes: Decodes): number {
    const chunks = [{ tokens: this.tokensBeside(decodes), context: 0 }]
    return decodes.ms + this.apart.prefillMs(chunks) - this.predictMs(decodes, chunks)
  }

  /** Learns from a step. */
  observe(decodes: Decodes, chunks: readonly Chunk[], durationMs: number): void {
    this.fit.observe(this.#features(decodes, chunks), durationMs)
  }

  /** What decodes take besides attention. */
  #weightsMs({ count, ms }: Decodes): number {
    return Math.min(ms, this.apart.decodeMs(Array.from({ length: count }, () => 0)))
  }

  #features(decodes: Decodes, chunks: readonly Chunk[]): number[] {
    const { apart } = this
    const decodeMs = this.#weightsMs(decodes)
    let attentionMs = decodes.ms - decodeMs
    for (const { tokens, context } of chunks) {
      attentionMs += apart.tokensMs(tokens, context) - apart.tokensMs(1) * tokens
    }
    const promptMs = apart.prefillMs(chunks) + decodes.ms - decodeMs - attentionMs
    return [attentionMs, Math.max(decodeMs, promptMs), Math.min(decodeMs, promptMs)]
  }
}
