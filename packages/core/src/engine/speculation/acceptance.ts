/** Kinds of guesses that are told apart. */
export const kinds = 16
/** The most that is ever believed of a guess. */
const mostSure = 0.98

/** Of each kind of guess, how many tokens were right lately. */
class Tally {
  readonly #right = new Float64Array(kinds)
  readonly #all = new Float64Array(kinds)

  /** @param memory - the weight that earlier guesses of a kind keep with each new one */
  constructor(private readonly memory: number) {}

  add(kind: number, isRight: boolean): void {
    this.#right[kind] = this.memory * this.#right[kind]! + Number(isRight)
    this.#all[kind] = this.memory * this.#all[kind]! + 1
  }

  fade(share: number): void {
    for (let kind = 0; kind < kinds; kind++) {
      this.#right[kind]! *= share
      this.#all[kind]! *= share
    }
  }

  /** The share that was right, `prior` counting as `weight` guesses. */
  share(kind: number, prior: number, weight: number): number {
    return (this.#right[kind]! + weight * prior) / (this.#all[kind]! + weight)
  }
}

/** How often the guesses of an engine's sequences were right, by their kind. */
export class EngineAcceptance {
  readonly #tally = new Tally(0.98)

  add(kind: number, isRight: boolean): void {
    this.#tally.add(kind, isRight)
  }

  /** What was learned counts for less: where nothing is guessed, nothing would ever change it. */
  fade(): void {
    this.#tally.fade(0.9)
  }

  /** As if of two guesses before one had been right. */
  of(kind: number): number {
    return this.#tally.share(kind, 0.5, 2)
  }
}

/** Guesses of an average sequence that each one begins with. */
const average = 2
/** The weight that a sequence's earlier guesses keep with each new one. */
const memory = 0.98

/**
 * How often the guesses for one sequence were right, by their kind. It starts from what the engine's
 * other sequences showed, and a sequence that does worse or better than these is expected to do so
 * with every kind: text that does not repeat is noticed after a few guesses. Guesses count whether
 * they were verified with others or only compared with the token that came, so learning costs nothing.
 */
export class SequenceAcceptance {
  readonly #tally = new Tally(0.95)
  #right = average
  #expected = average

  constructor(private readonly engine: EngineAcceptance) {}

  add(kind: number, isRight: boolean): void {
    this.#right = memory * this.#right + Number(isRight)
    this.#expected = memory * this.#expected + this.engine.of(kind)
    this.#tally.add(kind, isRight)
    this.engine.add(kind, isRight)
  }

  /** The probability that a token of such a guess is right, if those before it are. */
  of(kind: number): number {
    const prior = Math.min(mostSure, (this.engine.of(kind) * this.#right) / this.#expected)
    return Math.min(mostSure, this.#tally.share(kind, prior, 4))
  }
}
