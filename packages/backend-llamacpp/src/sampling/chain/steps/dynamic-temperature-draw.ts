import type { SamplingParams, TokenId } from '@cllm/core'
import type { Candidates } from '../candidates/candidates.js'
import { softmax } from '../candidates/softmax.js'
import type { DrawRandom } from '../random/draw-random.js'
import type { FinalDraw } from './chain-step.js'
import { entropyOf } from './entropy.js'
import { TemperatureDraw } from './temperature-draw.js'

const { fround } = Math

/** Tokens this much less likely than the likeliest are never drawn, at temperature 1. */
const negligible = 34

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
      candidates.keepFrom(candidates.largest - negligible * Math.max(1, this.#most))
    }
    candidates.sort()
    softmax(candidates)
    const certainty = fround(entropyOf(candidates) / fround(Math.log(counted)))
    const power = fround(Math.pow(Math.max(0, certainty), this.#exponent))
    return fround(this.#least + fround(fround(this.#most - this.#least) * power))
  }
}
