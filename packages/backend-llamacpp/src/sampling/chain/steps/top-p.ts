import type { Candidates } from '../candidates/candidates.js'
import { softmax } from '../candidates/softmax.js'
import type { ChainStep } from './chain-step.js'

/** This many tokens are sorted first, and then this many times more until they suffice. */
const firstSorted = 256
const growth = 8

/**
 * Nucleus sampling: leaves the likeliest tokens that together reach a probability. The sum is made in
 * single precision, like llama.cpp's.
 */
export class TopP implements ChainStep {
  readonly #reach: number
  readonly #least: number

  /**
   * @param reach - below 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(reach: number, least = 0) {
    this.#reach = Math.fround(reach)
    this.#least = least
  }

  apply(candidates: Candidates): void {
    candidates.list()
    const { size } = candidates
    const total = softmax(candidates)
    let sorted = candidates.isSorted ? size : 0
    for (;;) {
      const count = this.#count(candidates.weights, sorted)
      if (count !== undefined || sorted === size) return candidates.keepSorted(count ?? size)
      sorted = Math.min(size, Math.max(firstSorted, sorted * growth))
      this.#sortFirst(candidates, sorted, total)
    }
  }

  #sortFirst(candidates: Candidates, count: number, total: number): void {
    const { scan, weights, largest } = candidates
    candidates.sortFirst(count)
    scan.weighListed(count, 1, largest)
    for (let index = 0; index < count; index++) weights[index] = weights[index]! / total
  }

  /** How many of the sorted tokens reach it; undefined when all of them do not. */
  #count(probabilities: Float32Array, sorted: number): number | undefined {
    let sum = 0
    for (let index = 0; index < sorted; index++) {
      sum = Math.fround(sum + probabilities[index]!)
      if (sum >= this.#reach && index + 1 >= this.#least) return index + 1
    }
    return undefined
  }
}
