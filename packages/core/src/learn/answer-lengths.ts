/** Share of what is known that survives each answer. */
const memory = 0.98

/**
 * Learns how long answers are. Where no limit cuts them, each token is taken to be the last with the
 * same probability, so that an answer goes on as long whatever it has already: the maximum likelihood
 * estimate of an exponential distribution, in which an answer that was cut (by its limit, by a cancel)
 * counts with its tokens and without an end. Answers that all reach their limits are predicted to.
 */
export class AnswerLengths {
  // To start with, a little of an end every 256 tokens.
  #ends = 0.25
  #tokens = 64

  /** An answer of so many tokens is over; `isWhole` unless something cut it. */
  ended(tokens: number, isWhole: boolean): void {
    this.#ends = memory * this.#ends + (isWhole ? 1 : 0)
    this.#tokens = memory * this.#tokens + tokens
  }

  /** How many more tokens come, in the mean, where no more than `limit` may. */
  expected(limit: number): number {
    const rate = this.#ends / Math.max(1, this.#tokens)
    return rate * limit < 1e-6 ? limit : -Math.expm1(-rate * limit) / rate
  }
}
