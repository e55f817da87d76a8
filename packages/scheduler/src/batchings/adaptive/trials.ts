/** What seems worse is tried at least once in this many decisions. */
const longestInterval = 16

/**
 * Says when to try what seems worse: now and then, at first more often. An estimate that is never tried
 * again never changes.
 */
export class Trials {
  #decisions = 0
  #interval = 1

  /** Whether this decision against it is the one to try it. */
  isDue(): boolean {
    this.#decisions++
    if (this.#decisions < this.#interval) return false
    this.#decisions = 0
    this.#interval = Math.min(2 * this.#interval, longestInterval)
    return true
  }
}
