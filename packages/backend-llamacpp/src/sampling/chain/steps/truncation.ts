import { type Candidates, distances, softmax } from '../candidates/candidates.js'
import { RadixSort } from '../candidates/radix-sort.js'
import { leastLogit } from '../scan/vocabulary-scan.js'
import type { ChainStep, DrawRandom } from './draws.js'

/** Leaves the k likeliest tokens, sorted. */
export class TopK implements ChainStep {
  /** @param count - 1 or more */
  constructor(private readonly count: number) {}

  apply(candidates: Candidates): void {
    if (candidates.isSorted) candidates.keepSorted(this.count)
    else candidates.keepTop(this.count)
  }
}

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

/**
 * Nucleus sampling: leaves the likeliest tokens that together reach a probability. The sum is made in
 * single precision, like llama.cpp's.
 */
export class TopP implements ChainStep {
  readonly #reach: number

  /**
   * @param reach - below 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(
    reach: number,
    private readonly least: number = 0,
  ) {
    this.#reach = Math.fround(reach)
  }

  apply(candidates: Candidates): void {
    if (candidates.isWhole) return this.#ofWhole(candidates)
    const total = softmax(candidates)
    candidates.keepSorted(this.#count(candidates, total) ?? candidates.size)
  }

  /** Lists and sorts few more tokens than the nucleus has. */
  #ofWhole(candidates: Candidates): void {
    const { scan, largest } = candidates
    const all = scan.weigh(leastLogit, 1, largest)
    const total = scan.addSingly()
    for (const within of distances) {
      candidates.relist(largest - within)
      const { size } = candidates
      const isLast = within === Infinity
      if (scan.weighListed(size, 1, largest) < this.#reach * all && !isLast) continue
      const count = this.#count(candidates, total)
      if (count !== undefined || isLast) return candidates.keepSorted(count ?? size)
    }
  }

  /** Sorts them. How many of the likeliest reach it; undefined when all of them do not. */
  #count(candidates: Candidates, total: number): number | undefined {
    candidates.sort()
    const { scan, weights, size, largest } = candidates
    scan.weighListed(size, 1, largest)
    let sum = 0
    for (let index = 0; index < size; index++) {
      sum = Math.fround(sum + Math.fround(weights[index]! / total))
      if (sum >= this.#reach && index + 1 >= this.least) return index + 1
    }
    return undefined
  }
}

/** Leaves out tokens whose probability is below this share of the likeliest one's. */
export class MinP implements ChainStep {
  readonly #below: number

  /**
   * @param share - above 0, at most 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(
    share: number,
    private readonly least: number = 0,
  ) {
    this.#below = Math.fround(Math.log(Math.fround(share)))
  }

  apply(candidates: Candidates): void {
    const from = Math.fround(candidates.largest + this.#below)
    if (this.least > 1 && !this.#hasEnough(candidates, from)) candidates.keepTop(this.least)
    else candidates.keepFrom(from)
  }

  #hasEnough(candidates: Candidates, from: number): boolean {
    candidates.list()
    const { size, logits } = candidates
    let count = 0
    for (let index = 0; index < size && count < this.least; index++) {
      if (logits[index]! >= from) count += 1
    }
    return count >= this.least
  }
}

const { fround } = Math

/** Tokens this much less likely than the likeliest add nothing to the entropy. */
const negligibleSurprise = 34

/**
 * Locally typical sampling: leaves the tokens whose surprise is nearest to the expected one, until
 * they have a probability. They come out in this order, as from llama.cpp's `typical`.
 */
export class Typical implements ChainStep {
  readonly #reach: number
  readonly #sort = new RadixSort()
  #places = new Int32Array(0)
  #scores = new Float32Array(0)

  /**
   * @param reach - below 1
   * @param least - as many tokens stay, if there are as many
   */
  constructor(
    reach: number,
    private readonly least: number = 0,
  ) {
    this.#reach = fround(reach)
  }

  apply(candidates: Candidates): void {
    if (this.least === 0) candidates.keepFrom(candidates.largest - negligibleSurprise)
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
    while (kept < size && !(sum > this.#reach && kept >= this.least)) {
      sum = fround(sum + weights[this.#places[kept]!]!)
      kept += 1
    }
    candidates.keep(this.#places, kept)
  }
}

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

  /**
   * @param probability - of striking, above 0
   * @param temperature - of the draw after it
   * @param least - as many tokens must stay, or none is left out
   */
  constructor(
    probability: number,
    threshold: number,
    temperature: number,
    private readonly least: number = 0,
  ) {
    this.#probability = Math.fround(probability)
    this.#threshold = Math.fround(threshold)
    this.#reach = negligible * Math.max(1, temperature)
  }

  apply(candidates: Candidates, random: DrawRandom): void {
    if (candidates.size < 2 || random.chance() > this.#probability) return
    // what becomes the likeliest token has the threshold's probability at least
    const least = Math.max(this.#threshold, Number.MIN_VALUE)
    if (candidates.isWhole && this.least === 0)
      candidates.keepFrom(candidates.largest + Math.log(least) - this.#reach)
    candidates.sort()
    softmax(candidates)
    const { size, weights } = candidates
    let above = 0
    while (above < size && weights[above]! >= this.#threshold) above += 1
    if (above > 1 && size - (above - 1) >= this.least) candidates.dropFirst(above - 1)
  }
}

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
