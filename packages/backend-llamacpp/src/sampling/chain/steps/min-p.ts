import type { Candidates } from '../candidates/candidates.js'
import type { ChainStep } from './chain-step.js'

/** Leaves out tokens whose probability is below this share of the likeliest one's. */
export class MinP implements ChainStep {
  readonly #below: number

  /** @param share - above 0, at most 1 */
  constructor(share: number) {
    this.#below = Math.fround(Math.log(Math.fround(share)))
  }

  apply(candidates: Candidates): void {
    candidates.keepFrom(Math.fround(candidates.largest + this.#below))
  }
}
