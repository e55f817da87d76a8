import type { Candidates } from '../candidates/candidates.js'
import type { ChainStep } from './chain-step.js'

/** Leaves out tokens whose probability is below this share of the likeliest one's. */
export class MinP implements ChainStep {
  readonly #below: number
  readonly #least: number

  /**
   * @param share - above 0, at most 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(share: number, least = 0) {
    this.#least = least
    this.#below = Math.fround(Math.log(Math.fround(share)))
  }

  apply(candidates: Candidates): void {
    const from = Math.fround(candidates.largest + this.#below)
    if (this.#least > 1 && !this.#hasEnough(candidates, from)) candidates.keepTop(this.#least)
    else candidates.keepFrom(from)
  }

  #hasEnough(candidates: Candidates, from: number): boolean {
    candidates.list()
    const { size, logits } = candidates
    let count = 0
    for (let index = 0; index < size && count < this.#least; index++) {
      if (logits[index]! >= from) count += 1
    }
    return count >= this.#least
  }
}
