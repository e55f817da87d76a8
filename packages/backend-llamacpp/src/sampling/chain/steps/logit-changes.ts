import type { SamplingParams, TokenId } from '@cllm/core'
import { leastLogit } from '../scan/vocabulary-scan.js'
import type { LogitChange } from './draws.js'

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

/**
 * Adds to the logits of single tokens.
 * @param biases - one for each of the tokens, which are in the vocabulary
 */
export function addBiases(
  logits: Float32Array,
  tokens: ArrayLike<number>,
  biases: ArrayLike<number>,
): void {
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]!
    logits[token] = Math.min(-leastLogit, logits[token]! + Math.fround(biases[index]!))
  }
}
