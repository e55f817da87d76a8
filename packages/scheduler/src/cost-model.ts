import type { SchedulerEvent, SequenceView } from '@cllm/core'
import { LinearFit } from './linear-fit.js'

/** The work of a step, as far as its time depends on it. */
interface Work {
  decodeSequences: number
  /** Keys that the decoding sequences read. */
  decodeContext: number
  prefillTokens: number
  /** Pairs of a prompt token and a key it reads. */
  prefillPairs: number
}

/** A sequence's place for its next tokens. */
export type Placed = Pick<SequenceView, 'computedTokens'>

/**
 * Learns what a step costs from the steps that ran, in milliseconds:
 *
 *     decode  = base + each · sequences + read · context
 *     prefill = base + each · tokens    + read · Σ tokens · context
 *
 * A step with both costs the sum: llama.cpp computes the one token of every sequence in a first pass
 * over the weights and the rest of a prompt in another. It starts from the costs of a small model on
 * two CPU cores: a faster machine is believed at its first step, a slower one within a few.
 */
export class CostModel {
  readonly #fit = new LinearFit({
    prior: [10, 8, 0.002, 10, 4, 0.001],
    memory: 0.9,
    outlier: 2,
  })

  observe(event: Extract<SchedulerEvent, { type: 'step' }>): void {
    const work: Work = { decodeSequences: 0, decodeContext: 0, prefillTokens: 0, prefillPairs: 0 }
    for (const { request, tokens } of event.parts) {
      // A request that ended with this step has given its slot back and computed "nothing".
      const length = request.computedTokens || request.promptTokens + request.generatedTokens
      if (tokens === 1) {
        work.decodeSequences += 1
        work.decodeContext += length
      } else {
        work.prefillTokens += tokens
        work.prefillPairs += tokens * (length - tokens / 2)
      }
    }
    this.#fit.observe(features(work), event.durationMs)
  }

  /** Milliseconds of one token for each of these sequences; 0 for none. */
  decodeMs(sequences: readonly Placed[]): number {
    let decodeContext = 0
    for (const { computedTokens } of sequences) decodeContext += computedTokens
    const decodeSequences = sequences.length
    const work = { decodeSequences, decodeContext, prefillTokens: 0, prefillPairs: 0 }
    return this.#fit.predict(features(work))
  }

  /** Milliseconds of a chunk of `tokens` behind `context` tokens. */
  prefillMs(tokens: number, context: number): number {
    const prefillPairs = tokens * (context + tokens / 2)
    const work = { decodeSequences: 0, decodeContext: 0, prefillTokens: tokens, prefillPairs }
    return this.#fit.predict(features(work))
  }

  /** The part of a prefill's time that does not depend on its length. */
  get prefillBaseMs(): number {
    return this.#fit.coefficients[3] ?? 0
  }

  /** How many tokens behind `context` tokens take `ms`; 0 or less where none does. */
  prefillTokens(ms: number, context: number): number {
    const [, , , base = 0, each = 0, read = 0] = this.#fit.coefficients
    const spare = ms - base
    const linear = each + read * context
    if (spare <= 0) return 0
    // Solves read/2 · tokens² + linear · tokens = spare, in the form that bears read = 0.
    const root = Math.sqrt(linear ** 2 + 2 * read * spare)
    return linear + root > 0 ? (2 * spare) / (linear + root) : Infinity
  }
}

function features(work: Work): number[] {
  const { decodeSequences, decodeContext, prefillTokens, prefillPairs } = work
  const decodes = decodeSequences > 0 ? 1 : 0
  const prefills = prefillTokens > 0 ? 1 : 0
  return [decodes, decodeSequences, decodeContext, prefills, prefillTokens, prefillPairs]
}
