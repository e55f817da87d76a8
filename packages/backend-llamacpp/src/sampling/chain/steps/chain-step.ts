import type { TokenId } from '@cllm/core'
import type { Candidates } from '../candidates/candidates.js'

/** Changes the logits of single tokens before any is left out. */
export interface LogitChange {
  /** @param history - all tokens before the one that is drawn */
  apply(logits: Float32Array, history: readonly TokenId[]): void
}

/** Leaves out candidates, or changes all of their logits. At least one is left. */
export interface ChainStep {
  apply(candidates: Candidates, random: DrawRandom): void
}

/** Chooses one of the candidates that the steps have left. */
export interface FinalDraw {
  pick(candidates: Candidates, random: DrawRandom): TokenId
  /** The temperature of the last draw; 0 where the likeliest was taken. */
  readonly temperature: number
}

/** The largest numbers below 1, in double and in single precision. */
const belowOne = 1 - 2 ** -53
const belowOneSingle = 1 - 2 ** -24

/**
 * The random numbers of one draw, as llama.cpp's samplers take them: each kind of sampler has a
 * generator of its own, all with the same seed. A second try of the same draw (the grammar refused
 * the first) takes the next number of each.
 */
export class DrawRandom {
  readonly #draws = new MersenneTwister()
  readonly #chances = new MersenneTwister()

  /** Begins the draw with this seed. */
  seed(seed: number): void {
    this.#draws.seed(seed)
    this.#chances.seed(seed)
  }

  /** For choosing a token, in [0, 1): `std::uniform_real_distribution<double>`. */
  uniform(): number {
    const low = this.#draws.next()
    return Math.min(belowOne, (low + this.#draws.next() * 2 ** 32) / 2 ** 64)
  }

  /** Whether XTC strikes, in [0, 1): `std::uniform_real_distribution<float>`. */
  chance(): number {
    return Math.min(belowOneSingle, Math.fround(this.#chances.next()) / 2 ** 32)
  }
}

/** Words of the generator's state. */
const size = 624
/** The distance of the two words that an output mixes. */
const middle = 397
/** How many outputs need no second round of the state. */
const firstRound = size - middle

/**
 * The first outputs of `std::mt19937` for a seed. Each draw has a seed of its own, so only these are
 * ever asked for: the state is made as far as they depend on it, 400 words in place of 624.
 */
export class MersenneTwister {
  readonly #state = new Uint32Array(size)
  #made = 0
  #next = 0

  /** Begins the sequence of this seed, 0 to 4294967295. */
  seed(seed: number): void {
    this.#state[0] = seed
    this.#made = 1
    this.#next = 0
  }

  /** The next output, 0 to 4294967295. At most 227 of a seed can be asked for. */
  next(): number {
    const at = this.#next++
    if (at >= firstRound) throw new RangeError(`at most ${firstRound} outputs of a seed`)
    this.#makeUpTo(at + middle)
    const state = this.#state
    const mixed = (state[at]! & 0x80000000) | (state[at + 1]! & 0x7fffffff)
    let word = state[at + middle]! ^ (mixed >>> 1) ^ ((mixed & 1) === 0 ? 0 : 0x9908b0df)
    word ^= word >>> 11
    word ^= (word << 7) & 0x9d2c5680
    word ^= (word << 15) & 0xefc60000
    return (word ^ (word >>> 18)) >>> 0
  }

  #makeUpTo(last: number): void {
    const state = this.#state
    for (; this.#made <= last; this.#made++) {
      const before = state[this.#made - 1]!
      state[this.#made] = Math.imul(1812433253, before ^ (before >>> 30)) + this.#made
    }
  }
}
