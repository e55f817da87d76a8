import { RadixSort } from '../candidates/radix-sort.js'
import type { Candidates } from '../candidates/candidates.js'
import { softmax } from '../candidates/softmax.js'
import type { ChainStep } from './chain-step.js'

const { fround } = Math

/** Tokens this much less likely than the likeliest add nothing to the entropy. */
const negligible = 34

/**
 * Locally typical sampling: leaves the tokens whose surprise is nearest to the expected one, until
 * they have a probability. They come out in this order, as from llama.cpp's `typical`.
 */
export class Typical implements ChainStep {
  readonly #reach: number
  readonly #least: number
  readonly #sort = new RadixSort()
  #places = new Int32Array(0)
  #scores = new Float32Array(0)

  /**
   * @param reach - below 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(reach: number, least = 0) {
    this.#least = least
    this.#reach = fround(reach)
  }

  apply(candidates: Candidates): void {
    if (this.#least === 0) candidates.keepFrom(candidates.largest - negligible)
    candidates.sort()
    softmax(candidates)
    const { size, weights } = candidates
    if (this.#places.length < size) {
      this.#places = new Int32Array(size)
      this.#scores = new Float32Array(size)
    }
    let entropy = 0
    for (let index = 0; index < size; index++) {
      const probability = weights[index]!
      const surprise = fround(-Math.log(probability))
      this.#scores[index] = surprise
      // 0 × ∞ would make all of it NaN, as it does in llama.cpp
      if (probability > 0) entropy = fround(entropy + fround(probability * surprise))
    }
    for (let index = 0; index < size; index++) {
      this.#places[index] = index
      this.#scores[index] = -Math.abs(fround(this.#scores[index]! - entropy))
    }
    this.#sort.sort(this.#places, this.#scores, size)
    let sum = 0
    let kept = 0
    while (kept < size && !(sum > this.#reach && kept >= this.#least)) {
      sum = fround(sum + weights[this.#places[kept]!]!)
      kept += 1
    }
    candidates.keep(this.#places, kept)
  }
}
