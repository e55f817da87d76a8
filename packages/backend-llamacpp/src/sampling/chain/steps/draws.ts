import type { SamplingParams, TokenId } from '@cllm/core'
import { type Candidates, entropyOf, softmax } from '../candidates/candidates.js'
import { blockSize, leastLogit, leastWeight } from '../scan/vocabulary-scan.js'

/** Changes the logits of single tokens before steps leave out any. The history has all tokens before the drawn one. */
export type LogitChange = (logits: Float32Array, history: readonly TokenId[]) => void

/** Leaves out candidates, but not all of them, or changes all logits. */
export type ChainStep = (candidates: Candidates, random: DrawRandom) => void

/** Chooses one of the candidates that the steps have left. */
export interface FinalDraw {
  pick(candidates: Candidates, random: DrawRandom): TokenId
  /** The temperature of the last draw; 0: it took the likeliest token. */
  readonly temperature: number
}

const { fround } = Math

/** The largest numbers below 1, in double and in single precision. */
const belowOne = 1 - 2 ** -53
const belowOneSingle = 1 - 2 ** -24

/** Words of the generator's state. */
const size = 624
/** The distance of the two words that an output mixes. */
const middle = 397
/** The number of outputs before the generator's state must be renewed. */
const firstRound = size - middle

/**
 * The random numbers of one draw, as llama.cpp's samplers take them: each kind of sampler has its own `std::mt19937`,
 * all with the same seed. A second try of the same draw (after the grammar refused the first) takes the next number of
 * each.
 */
export class DrawRandom {
  /** The generator's state, only computed as far as needed: the first outputs depend on 400 words. */
  readonly #state = new Uint32Array(size)
  #made = 0
  /** The number of outputs taken by {@link uniform}, and by {@link chance}. */
  #draws = 0
  #chances = 0

  /** Begins the draw with this seed, 0 to 4294967295. */
  seed(seed: number): void {
    this.#state[0] = seed
    this.#made = 1
    this.#draws = 0
    this.#chances = 0
  }

  /** A number in [0, 1) for choosing a token: `std::uniform_real_distribution<double>`. */
  uniform(): number {
    const low = this.output(this.#draws++)
    return Math.min(belowOne, (low + this.output(this.#draws++) * 2 ** 32) / 2 ** 64)
  }

  /** A number in [0, 1) for whether XTC applies: `std::uniform_real_distribution<float>`. */
  chance(): number {
    return Math.min(belowOneSingle, fround(this.output(this.#chances++)) / 2 ** 32)
  }

  /** The generator's output, 0 to 4294967295, with an index from 0 to 226. */
  output(index: number): number {
    if (index >= firstRound) throw new RangeError(`at most ${firstRound} outputs of a seed`)
    const state = this.#state
    for (; this.#made <= index + middle; this.#made++) {
      const before = state[this.#made - 1]!
      state[this.#made] = Math.imul(1812433253, before ^ (before >>> 30)) + this.#made
    }
    const mixed = (state[index]! & 0x80000000) | (state[index + 1]! & 0x7fffffff)
    let word = state[index + middle]! ^ (mixed >>> 1) ^ ((mixed & 1) === 0 ? 0 : 0x9908b0df)
    word ^= word >>> 11
    word ^= (word << 7) & 0x9d2c5680
    word ^= (word << 15) & 0xefc60000
    return (word ^ (word >>> 18)) >>> 0
  }
}

/** The first try ignores tokens whose weight is below exp(−this) of the largest. */
const negligible = 12
/** Of these, tokens below exp(−this) are counted separately. */
const farBelow = 16
const largestShift = 2048

/**
 * Divides the logits by the temperature and draws from their softmax, as llama.cpp's `temp` and `dist`: takes the first
 * token at which the running sum of the weights reaches a random share of the total. At temperature 0 it takes the
 * likeliest token; in a tie the first.
 */
export class TemperatureDraw implements FinalDraw {
  /** @param temperature - in single precision */
  constructor(readonly temperature: number) {}

  pick(candidates: Candidates, random: DrawRandom): TokenId {
    const share = random.uniform()
    if (!(this.temperature > 0)) return candidates.likeliest
    const shift = fround(candidates.largest / this.temperature)
    if (!Number.isFinite(shift)) return candidates.likeliest
    const token = candidates.isWhole
      ? (this.#pickLikely(candidates, share, shift) ?? this.#pickWhole(candidates, share, shift))
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
   * Draws without the tokens whose weights are negligible.
   * @returns undefined if these weights might change which token is drawn
   */
  #pickLikely({ scan, largest }: Candidates, share: number, shift: number): TokenId | undefined {
    // beyond this, the rounding of the scaled logits would matter
    if (Math.abs(shift) > largestShift) return undefined
    const from = Math.max(leastLogit, largest - negligible * this.temperature)
    const count = scan.countTokens(from)
    if (count * 4 > scan.size) return undefined
    const near = scan.countTokens(Math.max(leastLogit, largest - farBelow * this.temperature))
    // an upper bound for the weight of all other tokens, and for rounding
    const missing =
      1.001 * ((near - count) * Math.exp(-negligible) + (scan.size - near) * Math.exp(-farBelow)) +
      1e-6
    const { ids, weights } = scan
    scan.collect(from)
    const target = scan.weighListed(count, this.temperature, shift) * share
    let sum = 0
    for (let index = 0; index < count; index++) {
      const before = sum
      sum += weights[index]!
      if (sum < target) continue
      return before + missing < target && sum >= target + missing ? ids[index]! : undefined
    }
    return undefined
  }

  #pickWhole({ scan }: Candidates, share: number, shift: number): TokenId | undefined {
    const target = scan.weigh(leastLogit, this.temperature, shift) * share
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
        sum += weights[token]!
        if (sum >= target && weights[token]! > leastWeight) return token
      }
    }
    return undefined
  }
}

/** At temperature 1, tokens this far below the largest logit are never drawn, and add nothing to the entropy. */
export const neverDrawn = 34

/**
 * Draws at a temperature that depends on the model's uncertainty: llama.cpp's `temp_ext`. It is the lower end of the
 * range if one token is certain, and the upper end if all are equally likely.
 */
export class DynamicTemperatureDraw implements FinalDraw {
  readonly #least: number
  readonly #most: number
  readonly #exponent: number
  temperature = 0

  constructor(params: SamplingParams) {
    const temperature = fround(params.temperature)
    const range = fround(params.dynamicTemperatureRange)
    this.#least = Math.max(0, fround(temperature - range))
    this.#most = fround(temperature + range)
    this.#exponent = fround(params.dynamicTemperatureExponent)
  }

  pick(candidates: Candidates, random: DrawRandom): TokenId {
    this.temperature = this.#temperatureFor(candidates)
    return new TemperatureDraw(this.temperature).pick(candidates, random)
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
