import type { SamplingParams, TokenId } from '@cllm/core'
import { type Candidates, softmax } from '../candidates/candidates.js'
import { blockSize, leastLogit, leastWeight } from '../scan/vocabulary-scan.js'
import type { DrawRandom, FinalDraw } from './chain-step.js'

/** Chooses the likeliest token; of equal ones the first. */
export class GreedyDraw implements FinalDraw {
  readonly temperature = 0

  pick(candidates: Candidates): TokenId {
    return candidates.likeliest
  }
}

/** Tokens whose weight is below exp(−this) of the largest are not looked at in a first try. */
const negligible = 20

/**
 * Divides the logits by the temperature and draws from their softmax, as llama.cpp's `temp` and
 * `dist`: the first token at which the running sum of the weights reaches the random share of all.
 */
export class TemperatureDraw implements FinalDraw {
  /** @param temperature - above 0, in single precision */
  constructor(readonly temperature: number) {}

  pick(candidates: Candidates, random: DrawRandom): TokenId {
    return this.pickBy(candidates, random.uniform())
  }

  /** The token at this share of all weights, in [0, 1). */
  pickBy(candidates: Candidates, share: number): TokenId {
    const shift = Math.fround(candidates.largest / this.temperature)
    if (!Number.isFinite(shift)) return candidates.likeliest
    const token = candidates.isWhole
      ? (this.#pickWhole(candidates, share, shift, negligible) ??
        this.#pickWhole(candidates, share, shift, Infinity))
      : this.#pickListed(candidates, share, shift)
    return token ?? candidates.likeliest
  }

  #pickListed(
    { scan, ids, weights, size }: Candidates,
    share: number,
    shift: number,
  ): TokenId | undefined {
    const target = scan.weighListed(size, this.temperature, shift) * share
    let sum = 0
    for (let index = 0; index < size; index++) {
      sum += weights[index]!
      if (sum >= target && weights[index]! > leastWeight) return ids[index]!
    }
    return undefined
  }

  /**
   * Draws without the blocks in which all scaled logits are `reach` below the largest.
   * @returns undefined when those could make another token the one that is drawn
   */
  #pickWhole(
    { scan, largest }: Candidates,
    share: number,
    shift: number,
    reach: number,
  ): TokenId | undefined {
    const from = Math.max(leastLogit, largest - reach * this.temperature)
    const target = scan.weigh(from, this.temperature, shift) * share
    const missing = scan.size * Math.exp(-reach)
    const { sums, weights } = scan
    let sum = 0
    for (let block = 0; block < sums.length; block++) {
      const blockSum = sums[block]!
      if (blockSum === 0 || sum + blockSum < target) {
        sum += blockSum
        continue
      }
      const start = block * blockSize
      for (let token = start; token < start + blockSize; token++) {
        const before = sum
        sum += weights[token]!
        if (sum < target || weights[token]! <= leastWeight) continue
        const isSure = missing === 0 || (before + missing < target && sum >= target + missing)
        return isSure ? token : undefined
      }
    }
    return undefined
  }
}

const { fround } = Math

/** Tokens this much less likely than the likeliest are never drawn, at temperature 1. */
const neverDrawn = 34

/**
 * Draws at a temperature that follows the model's uncertainty: llama.cpp's `temp_ext`. The lower end of
 * the range is reached where one token is certain, the upper one where all are equally likely.
 */
export class DynamicTemperatureDraw implements FinalDraw {
  readonly #least: number
  readonly #most: number
  readonly #exponent: number
  #temperature = 0

  constructor(params: SamplingParams) {
    const temperature = fround(params.temperature)
    const range = fround(params.dynamicTemperatureRange)
    this.#least = Math.max(0, fround(temperature - range))
    this.#most = fround(temperature + range)
    this.#exponent = fround(params.dynamicTemperatureExponent)
  }

  get temperature(): number {
    return this.#temperature
  }

  pick(candidates: Candidates, random: DrawRandom): TokenId {
    const share = random.uniform()
    this.#temperature = this.#temperatureFor(candidates)
    if (!(this.#temperature > 0)) return candidates.likeliest
    return new TemperatureDraw(this.#temperature).pickBy(candidates, share)
  }

  #temperatureFor(candidates: Candidates): number {
    const { size, counted } = candidates
    if (size === 1) return 0
    if (candidates.isWhole) {
      candidates.keepFrom(candidates.largest - neverDrawn * Math.max(1, this.#most))
    }
    candidates.sort()
    softmax(candidates)
    const certainty = fround(entropyOf(candidates) / fround(Math.log(counted)))
    const power = fround(Math.pow(Math.max(0, certainty), this.#exponent))
    return fround(this.#least + fround(fround(this.#most - this.#least) * power))
  }
}

/** The entropy of the candidates' probabilities in nats; these must be in their weights. */
export function entropyOf({ weights, size }: Candidates): number {
  let entropy = 0
  for (let index = 0; index < size; index++) {
    const probability = weights[index]!
    if (probability > 0) {
      const surprise = Math.fround(Math.log(probability))
      entropy = Math.fround(entropy - Math.fround(probability * surprise))
    }
  }
  return entropy
}
