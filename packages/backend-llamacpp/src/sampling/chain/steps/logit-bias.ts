import type { LogitChange } from './chain-step.js'

/** The largest number that a logit can be. */
const mostLogit = 3.4028234663852886e38

/** Adds to the logits of single tokens. */
export class LogitBias implements LogitChange {
  /** Whose logits it changes. */
  readonly tokens: ArrayLike<number>
  readonly #biases: ArrayLike<number>

  /** @param biases - one for each of the tokens, which are in the vocabulary */
  constructor(tokens: ArrayLike<number>, biases: ArrayLike<number>) {
    this.tokens = tokens
    this.#biases = biases
  }

  apply(logits: Float32Array): void {
    for (let index = 0; index < this.tokens.length; index++) {
      const token = this.tokens[index]!
      logits[token] = Math.min(mostLogit, logits[token]! + Math.fround(this.#biases[index]!))
    }
  }
}
