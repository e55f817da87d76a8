import type { TokenId } from '@cllm/core'
import type { Candidates } from '../candidates/candidates.js'
import type { DrawRandom } from '../random/draw-random.js'
import { blockSize } from '../scan/vocabulary-scan.js'
import type { FinalDraw } from './chain-step.js'

/** Tokens whose weight is below exp(−this) of the largest are not looked at in a first try. */
const negligible = 26

/**
 * Divides the logits by the temperature and draws from their softmax, as llama.cpp's `temp` and
 * `dist`: the first token at which the running sum of the weights reaches the random share of all.
 */
export class TemperatureDraw implements FinalDraw {
  readonly #temperature: number
  readonly #weights = new Float32Array(blockSize)

  /** @param temperature - above 0, in single precision */
  constructor(temperature: number) {
    this.#temperature = temperature
  }

  pick(candidates: Candidates, random: DrawRandom): TokenId {
    const share = random.uniform()
    if (!candidates.isWhole) return this.#pickListed(candidates, share)
    return (
      this.#pickWhole(candidates, share, negligible) ??
      this.#pickWhole(candidates, share, Infinity) ??
      candidates.likeliest
    )
  }

  #pickListed(candidates: Candidates, share: number): TokenId {
    candidates.divide(this.#temperature)
    const { ids, logits, probabilities: weights, size, largest } = candidates
    let total = 0
    for (let index = 0; index < size; index++) {
      const weight = Math.fround(Math.exp(Math.fround(logits[index]! - largest)))
      weights[index] = weight
      total += weight
    }
    const target = total * share
    let sum = 0
    for (let index = 0; index < size; index++) {
      sum += weights[index]!
      if (sum >= target && weights[index]! > 0) return ids[index]!
    }
    return candidates.likeliest
  }

  /**
   * Draws without the tokens whose scaled logit is `reach` below the largest.
   * @returns undefined when those could make another token the one that is drawn
   */
  #pickWhole({ scan, largest }: Candidates, share: number, reach: number): TokenId | undefined {
    const from = largest - reach * this.#temperature
    const shift = Math.fround(largest / this.#temperature)
    const { total, leftOut } = scan.weigh(from, this.#temperature, shift)
    const missing = leftOut * Math.exp(-reach)
    const target = total * share
    if (!Number.isFinite(target)) return undefined
    let sum = 0
    for (let block = 0; block < scan.sums.length; block++) {
      const before = sum
      sum += scan.sums[block]!
      if (sum < target || scan.sums[block] === 0) continue
      scan.weights(block, this.#weights)
      sum = before
      for (let index = 0; index < blockSize; index++) {
        const weight = this.#weights[index]!
        const sure = sum + missing < target || missing === 0
        sum += weight
        if (sum < target || weight === 0) continue
        return sure && sum >= target + missing ? block * blockSize + index : undefined
      }
    }
    return undefined
  }
}
