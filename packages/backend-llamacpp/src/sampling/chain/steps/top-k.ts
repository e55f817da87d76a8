import type { Candidates } from '../candidates/candidates.js'
import type { ChainStep } from './chain-step.js'

/** Leaves the k likeliest tokens, sorted. */
export class TopK implements ChainStep {
  readonly #count: number

  /** @param count - 1 or more */
  constructor(count: number) {
    this.#count = count
  }

  apply(candidates: Candidates): void {
    if (candidates.isSorted) candidates.keepSorted(this.#count)
    else candidates.keepTop(this.#count)
  }
}
