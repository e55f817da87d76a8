import type { Candidates } from '../candidates/candidates.js'
import { softmax } from '../candidates/softmax.js'
import type { DrawRandom } from '../random/draw-random.js'
import type { ChainStep } from './chain-step.js'

/** With a threshold above this XTC does nothing. */
const mostThreshold = 0.5

/** Tokens this much less likely than the likeliest are never drawn, at temperature 1. */
const negligible = 34

/**
 * XTC ("exclude top choices"): now and then leaves out the likeliest tokens, all but the last of those
 * that have a probability.
 */
export class Xtc implements ChainStep {
  readonly #probability: number
  readonly #threshold: number
  readonly #reach: number
  readonly #least: number

  /**
   * @param probability - of striking, above 0
   * @param temperature - of the draw after it
   * @param least - as many tokens must stay, or none is left out
   */
  constructor(probability: number, threshold: number, temperature: number, least = 0) {
    this.#least = least
    this.#probability = Math.fround(probability)
    this.#threshold = Math.fround(threshold)
    this.#reach = negligible * Math.max(1, temperature)
  }

  /** Whether it does anything. */
  static isOn(probability: number, threshold: number): boolean {
    return probability > 0 && threshold <= mostThreshold
  }

  apply(candidates: Candidates, random: DrawRandom): void {
    if (candidates.size < 2 || random.chance() > this.#probability) return
    // what becomes the likeliest token has the threshold's probability at least
    const least = Math.max(this.#threshold, Number.MIN_VALUE)
    if (candidates.isWhole && this.#least === 0)
      candidates.keepFrom(candidates.largest + Math.log(least) - this.#reach)
    candidates.sort()
    softmax(candidates)
    const { size, weights } = candidates
    let above = 0
    while (above < size && weights[above]! >= this.#threshold) above += 1
    if (above > 1 && size - (above - 1) >= this.#least) candidates.dropFirst(above - 1)
  }
}
