import { MersenneTwister } from './mersenne-twister.js'

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
