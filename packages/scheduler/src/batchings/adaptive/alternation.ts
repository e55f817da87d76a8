/**
 * Decides between two ways by estimates, and tries the way that seems worse at growing intervals: an
 * estimate that is never tried again never changes.
 */
export class Alternation {
  #decisions = 0
  #interval = 1

  /** Whether to take the first way, given whether it seems better. */
  decide(seemsBetter: boolean): boolean {
    this.#decisions++
    if (this.#decisions < this.#interval) return seemsBetter
    this.#decisions = 0
    this.#interval *= 2
    return !seemsBetter
  }
}
