import { type Candidates, distances } from '../candidates/candidates.js'
import type { ChainStep } from './draws.js'

/**
 * Mirostat 2 without a memory: leaves the likeliest tokens as long as their expected surprise, the
 * entropy of a draw from them, is at most tau.
 *
 * llama.cpp cuts at a surprise that it corrects after each token by what the token's own surprise was,
 * so that the mean of the surprises settles at tau. That number belongs to all draws before. A
 * sequence that goes on elsewhere has its tokens, but not the logits that they were drawn from; so the
 * cut is made where each draw by itself has the wanted expectation, and follows from the logits alone.
 */
export class Mirostat implements ChainStep {
  readonly #tau: number

  /**
   * @param tau - the expected surprise in bits
   * @param temperature - of the draw after it, above 0
   */
  constructor(
    tau: number,
    private readonly temperature: number,
  ) {
    this.#tau = tau * Math.LN2
  }

  apply(candidates: Candidates): void {
    const { logits, largest } = candidates
    // of the tokens so far: the weights, and these times their distances from the likeliest
    let total = 0
    let spread = 0
    let kept = 0
    for (const within of distances) {
      candidates.relist(largest - within)
      candidates.sort()
      for (; kept < candidates.size; kept++) {
        const distance = (largest - logits[kept]!) / this.temperature
        const weight = Math.exp(-distance)
        total += weight
        spread += weight * distance
        if (kept > 0 && Math.log(total) + spread / total > this.#tau) {
          return candidates.keepSorted(kept)
        }
      }
    }
  }
}
