/** Steps until the first trial, and at most between two. */
const [first, longest] = [16, 1024]

/**
 * When drafts are tried that do not seem to pay: what they cost, and how often they are right, shows
 * only where they are made. Ever more rarely, while nothing comes of it.
 */
export class TrialPace {
  #between = first
  #left = first

  /** A step is to have no drafts; returns whether it is to try some. */
  isDue(): boolean {
    if (--this.#left > 0) return false
    this.#left = this.#between = Math.min(longest, 4 * this.#between)
    return true
  }

  /** Nothing could be guessed yet: the next step without drafts is to try it again. */
  retry(): void {
    this.#left = 1
  }

  /** Drafts seem to pay. */
  reset(): void {
    this.#between = this.#left = first
  }
}
