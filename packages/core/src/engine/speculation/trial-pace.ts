/** Steps until the first trial, and at most between two. */
const [first, longest] = [16, 1024]
/** Steps in a row whose drafts seemed to pay, until they are believed to. */
const believed = 4

/**
 * When drafts are tried that do not seem to pay: what they cost, and how often they are right, shows
 * only where they are made. Ever more rarely, while nothing comes of it.
 */
export class TrialPace {
  #between = first
  #left = first
  #paying = 0

  /** A step is to have no drafts; returns whether it is to try some. */
  isDue(): boolean {
    this.#paying = 0
    if (--this.#left > 0) return false
    this.#left = this.#between = Math.min(longest, 4 * this.#between)
    return true
  }

  /** Nothing could be guessed yet: the next step without drafts is to try it again. */
  retry(): void {
    this.#left = 1
  }

  /** A step has drafts that seem to pay. */
  onPaying(): void {
    if (++this.#paying >= believed) this.#between = this.#left = first
  }
}
