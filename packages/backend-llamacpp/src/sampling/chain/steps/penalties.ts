import type { SamplingParams, TokenId } from '@cllm/core'
import type { LogitChange } from './chain-step.js'

const { fround } = Math

/** Makes the latest tokens less likely: llama.cpp's `penalties`, in single precision as there. */
export class Penalties implements LogitChange {
  readonly #window: number
  readonly #repetition: number
  readonly #presence: number
  readonly #frequency: number
  readonly #counts = new Map<TokenId, number>()

  constructor(params: SamplingParams) {
    this.#window = params.penaltyLastN
    this.#repetition = fround(params.repetitionPenalty)
    this.#presence = fround(params.presencePenalty)
    this.#frequency = fround(params.frequencyPenalty)
  }

  /** Whether any penalty is on. */
  static isOn(params: SamplingParams): boolean {
    const { repetitionPenalty, presencePenalty, frequencyPenalty, penaltyLastN } = params
    if (penaltyLastN === 0) return false
    return repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0
  }

  apply(logits: Float32Array, history: readonly TokenId[]): void {
    const counts = this.#counts
    counts.clear()
    for (let at = Math.max(0, history.length - this.#window); at < history.length; at++) {
      const token = history[at]!
      counts.set(token, (counts.get(token) ?? 0) + 1)
    }
    for (const [token, count] of counts) {
      const logit = logits[token]!
      // a negative logit that is divided would grow
      const repeated = fround(logit <= 0 ? logit * this.#repetition : logit / this.#repetition)
      logits[token] = repeated - fround(fround(count * this.#frequency) + this.#presence)
    }
  }
}
