import { type Candidates, distances, entropyOf, softmax } from '../candidates/candidates.js'
import { RadixSort } from '../candidates/radix-sort.js'
import { leastLogit } from '../scan/vocabulary-scan.js'
import { type ChainStep, neverDrawn } from './draws.js'

const { fround } = Math

/**
 * Leaves the k likeliest tokens, sorted.
 * @param count - 1 or more
 */
export function topKStep(count: number): ChainStep {
  return (candidates) => {
    if (candidates.isSorted) candidates.keepSorted(count)
    else candidates.keepTop(count)
  }
}

/**
 * Leaves out tokens whose logit is more than n standard deviations below the largest. llama.cpp adds up in single
 * precision, so for a large vocabulary its threshold can differ in the fourth digit.
 * @param n - above 0
 */
export function topNSigmaStep(n: number): ChainStep {
  const deviations = fround(n)
  return (candidates) => {
    const { largest, size, isWhole, scan } = candidates
    if (size <= 1) return
    const logits = isWhole ? scan.logits : candidates.logits
    const mean = meanOf(logits, size, 0, 1)
    const deviation = Math.sqrt(meanOf(logits, size, mean, 2))
    const least = largest - deviations * deviation
    if (Number.isFinite(least)) candidates.mask(least)
  }
}

/** The mean of (logit − `from`) ^ `power`, over the tokens that can be drawn. */
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
 * Nucleus sampling: leaves the likeliest tokens that together reach a probability. Adds up in single precision, like
 * llama.cpp.
 * @param probability - below 1
 * @param least - the least number of tokens to keep, if there are as many
 */
export function topPStep(probability: number, least = 0): ChainStep {
  const reach = fround(probability)
  return (candidates) => {
    if (!candidates.isWhole) {
      const total = softmax(candidates)
      return candidates.keepSorted(nucleusOf(candidates, total, reach, least) ?? candidates.size)
    }
    // lists and sorts only a few more tokens than the nucleus has
    const { scan, largest } = candidates
    const all = scan.weigh(leastLogit, 1, largest)
    const total = scan.addSingly()
    for (const within of distances) {
      candidates.relist(largest - within)
      const { size } = candidates
      const isLast = within === Infinity
      if (scan.weighListed(size, 1, largest) < reach * all && !isLast) continue
      const count = nucleusOf(candidates, total, reach, least)
      if (count !== undefined || isLast) return candidates.keepSorted(count ?? size)
    }
  }
}

/** Sorts the candidates, and counts how many of the likeliest reach a share of the total; undefined: all do not. */
function nucleusOf(
  candidates: Candidates,
  total: number,
  reach: number,
  least: number,
): number | undefined {
  candidates.sort()
  const { scan, weights, size, largest } = candidates
  scan.weighListed(size, 1, largest)
  let sum = 0
  for (let index = 0; index < size; index++) {
    sum = fround(sum + fround(weights[index]! / total))
    if (sum >= reach && index + 1 >= least) return index + 1
  }
  return undefined
}

/**
 * Leaves out tokens whose probability is below a share of the likeliest token's.
 * @param share - above 0, at most 1
 * @param least - the least number of tokens to keep, if there are as many
 */
export function minPStep(share: number, least = 0): ChainStep {
  const below = fround(Math.log(fround(share)))
  return (candidates) => {
    const from = fround(candidates.largest + below)
    if (least > 1 && !hasEnough(candidates, from, least)) candidates.keepTop(least)
    else candidates.keepFrom(from)
  }
}

function hasEnough(candidates: Candidates, from: number, least: number): boolean {
  candidates.list()
  const { size, logits } = candidates
  let count = 0
  for (let index = 0; index < size && count < least; index++) {
    if (logits[index]! >= from) count += 1
  }
  return count >= least
}

/**
 * Locally typical sampling: leaves the tokens whose surprise is nearest to the expected one, as many as reach a
 * probability together. Leaves them in this order, like llama.cpp's `typical`.
 * @param share - the probability, below 1
 * @param least - the least number of tokens to keep, if there are as many
 */
export function typicalStep(share: number, least = 0): ChainStep {
  const reach = fround(share)
  const radix = new RadixSort()
  let places = new Int32Array(0)
  let scores = new Float32Array(0)
  return (candidates) => {
    if (least === 0) candidates.keepFrom(candidates.largest - neverDrawn)
    candidates.sort()
    softmax(candidates)
    const { size, weights } = candidates
    if (places.length < size) {
      places = new Int32Array(size)
      scores = new Float32Array(size)
    }
    const entropy = entropyOf(candidates, scores)
    for (let index = 0; index < size; index++) {
      places[index] = index
      scores[index] = -Math.abs(fround(scores[index]! - entropy))
    }
    radix.sort(places, scores, size)
    let sum = 0
    let kept = 0
    while (kept < size && !(sum > reach && kept >= least)) {
      sum = fround(sum + weights[places[kept]!]!)
      kept += 1
    }
    candidates.keep(places, kept)
  }
}

/**
 * XTC ("exclude top choices"): at random, leaves out all tokens that reach the threshold's probability, except the
 * least likely of them.
 * @param probability - how often it applies, above 0
 * @param temperature - the temperature of the draw that follows
 * @param least - if fewer tokens would stay, leaves out none
 */
export function xtcStep(
  probability: number,
  threshold: number,
  temperature: number,
  least = 0,
): ChainStep {
  const [chance, lowest] = [fround(probability), fround(threshold)]
  // the token that becomes the likeliest has at least the threshold's probability
  const share = Math.log(Math.max(lowest, Number.MIN_VALUE))
  const reach = neverDrawn * Math.max(1, temperature)
  return (candidates, random) => {
    if (candidates.size < 2 || random.chance() > chance) return
    if (candidates.isWhole && least === 0) candidates.keepFrom(candidates.largest + share - reach)
    candidates.sort()
    softmax(candidates)
    const { size, weights } = candidates
    let above = 0
    while (above < size && weights[above]! >= lowest) above += 1
    if (above > 1 && size - (above - 1) >= least) candidates.dropFirst(above - 1)
  }
}

/**
 * Mirostat 2 without a memory: leaves the likeliest tokens as long as their expected surprise, the entropy of a draw
 * from them, is at most tau.
 *
 * llama.cpp cuts at a surprise that it corrects after each token by that token's surprise, so that the mean of the
 * surprises settles at tau. This state depends on all earlier draws. A sequence that another engine continues has its
 * tokens, but not the logits from which they were drawn. So the cut here depends on the logits alone, and gives each
 * single draw the expected surprise.
 * @param tau - the expected surprise in bits
 * @param temperature - the temperature of the draw that follows, above 0
 */
export function mirostatStep(tau: number, temperature: number): ChainStep {
  const expected = tau * Math.LN2
  return (candidates) => {
    const { logits, largest } = candidates
    // sums over the tokens so far: of their weights, and of weight times distance from the likeliest token
    let total = 0
    let spread = 0
    let kept = 0
    for (const within of distances) {
      candidates.relist(largest - within)
      candidates.sort()
      for (; kept < candidates.size; kept++) {
        const distance = (largest - logits[kept]!) / temperature
        const weight = Math.exp(-distance)
        total += weight
        spread += weight * distance
        if (kept > 0 && Math.log(total) + spread / total > expected) {
          return candidates.keepSorted(kept)
        }
      }
    }
  }
}
