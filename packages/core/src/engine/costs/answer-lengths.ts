/** Weight that the earlier answers keep with each new one. */
const memory = 0.98

/**
 * Learns the length of answers. Each token is assumed to be the last one with the same probability, so
 * the remaining length does not depend on the tokens so far: the maximum likelihood estimate of an
 * exponential distribution. An answer that was cut (by its limit or a cancel) counts with its tokens
 * and without an end. If all answers reach their limits, the limit is predicted.
 */
export class AnswerLengths {
  // Prior: one end in 256 tokens, with a small weight.
  #ends = 0.25
  #tokens = 64

  /** An answer ended with this many tokens; `isWhole` unless it was cut. */
  onEnded(tokens: number, isWhole: boolean): void {
    this.#ends = memory * this.#ends + (isWhole ? 1 : 0)
    this.#tokens = memory * this.#tokens + tokens
  }

  /** The expected number of further tokens, of which there are at most `limit`. */
  expected(limit: number): number {
    const rate = this.#ends / Math.max(1, this.#tokens)
    return rate * limit < 1e-6 ? limit : -Math.expm1(-rate * limit) / rate
  }
}
