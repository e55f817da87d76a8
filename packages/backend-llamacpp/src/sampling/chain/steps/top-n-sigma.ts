import type { Candidates } from '../candidates/candidates.js'
import type { ChainStep } from './chain-step.js'

/**
 * Leaves out tokens whose logit is more than n standard deviations below the largest. llama.cpp adds
 * up in single precision; so the cut of a large vocabulary can differ in the fourth digit.
 */
export class TopNSigma implements ChainStep {
  readonly #deviations: number

  /** @param deviations - above 0 */
  constructor(deviations: number) {
    this.#deviations = Math.fround(deviations)
  }

  apply(candidates: Candidates): void {
    const { largest, size, isWhole, scan } = candidates
    if (size <= 1) return
    const logits = isWhole ? scan.logits : candidates.logits
    const mean = meanOf(logits, size, 0, 1)
    const deviation = Math.sqrt(meanOf(logits, size, mean, 2))
    const least = largest - this.#deviations * deviation
    if (Number.isFinite(least)) candidates.mask(least)
  }
}

/** The mean of (logit − `from`) ^ `power`, over those that can be drawn. */
function meanOf(logits: Float32Array, size: number, from: number, power: 1 | 2): number {
  let sum = 0
  let count = 0
  for (let index = 0; index < size; index++) {
    const logit = logits[index]!
    if (!(logit > -Infinity)) continue
    const distance = logit - from
    sum += power === 1 ? distance : distance * distance
    count += 1
  }
  return count === 0 ? 0 : sum / count
}
