import type { Candidates } from '../candidates/candidates.js'
import type { ChainStep } from './draws.js'

/** This many tokens are sorted first, and then this many times more until they suffice. */
const firstSorted = 256
const growth = 8

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
  readonly #temperature: number

  /**
   * @param tau - the expected surprise in bits
   * @param temperature - of the draw after it, above 0
   */
  constructor(tau: number, temperature: number) {
    this.#tau = tau * Math.LN2
    this.#temperature = temperature
  }

  apply(candidates: Candidates): void {
    candidates.list()
    const { size, logits, largest } = candidates
    // of the tokens so far: the weights, and these times their distances from the likeliest
    let total = 0
    let distances = 0
    let kept = 0
    for (let sorted = 0; sorted < size;) {
      sorted = Math.min(size, Math.max(firstSorted, sorted * growth))
      candidates.sortFirst(sorted)
      for (; kept < sorted; kept++) {
        const distance = (largest - logits[kept]!) / this.#temperature
        const weight = Math.exp(-distance)
        total += weight
        distances += weight * distance
        if (kept > 0 && Math.log(total) + distances / total > this.#tau) {
          return candidates.keepSorted(kept)
        }
      }
    }
    candidates.keepSorted(size)
  }
}
