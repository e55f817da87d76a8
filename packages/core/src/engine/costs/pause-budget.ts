/** Saving adds at most this share of the longest recent step to the time between two tokens. */
const saveShare = 0.2
/** Restoring stands in for computing a part of a prompt, which takes a step of its own. */
const loadShare = 0.8
/** One pause of this share of what computing would take is better than all the chunks of that. */
const insteadShare = 0.1
/** The longest step counts for less with each later one. */
const memory = 0.995

/**
 * How long the engine may save and restore states between two steps while requests decode: a share of
 * the longest recent step, so that no token comes much later than others came anyway.
 */
export class PauseBudget {
  #longestMs = 0
  #spentMs = 0

  /** @param isAnyDecoding - without a request that decodes nobody waits, and all may take its time */
  constructor(readonly isAnyDecoding: () => boolean) {}

  /** A step took this long. */
  onStep(durationMs: number): void {
    this.#longestMs = Math.max(durationMs, this.#longestMs * memory)
    this.#spentMs = 0
  }

  /** The engine did not compute for this long. */
  onPause(ms: number): void {
    this.#spentMs += ms
  }

  /** Whether there is time to save something. */
  canSave(ms: number): boolean {
    if (!this.isAnyDecoding()) return true
    return this.#spentMs + ms <= saveShare * this.#longestMs
  }

  /** Whether there is time to restore something, instead of computing it for so long. */
  canLoad(ms: number, insteadMs: number): boolean {
    if (!this.isAnyDecoding()) return true
    const longest = Math.max(loadShare * this.#longestMs, insteadShare * insteadMs)
    return this.#spentMs + ms <= longest
  }
}
