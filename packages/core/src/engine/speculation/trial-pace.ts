/** Steps until the first trial, and at most between two. */
const [first, longest] = [16, 1024]
/** Steps in a row for which it seemed to pay, until it is believed to. */
const believed = 4

/**
 * When something is tried that does not seem to pay: drafts, or a step without them. What it costs, and
 * how often drafts are right, shows only where it is done. Ever more rarely, while nothing comes of it.
 */
export class TrialPace {
  #between = first
  #left = first
  #paying = 0

  /** A step is to do without it; returns whether it is to try it. */
  isDue(): boolean {
    this.#paying = 0
    if (--this.#left > 0) return false
    this.#left = this.#between = Math.min(longest, 4 * this.#between)
    return true
  }

  /** The trial could not be made yet: the next step is to try it again. */
  retry(): void {
    this.#left = 1
  }

  /** A step does it, as that seems to pay. */
  onPaying(): void {
    if (++this.#paying >= believed) this.#between = this.#left = first
  }
}
