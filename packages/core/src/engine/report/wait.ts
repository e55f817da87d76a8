import type { WaitReason } from '../../contracts/engine/request-report.js'
import type { Sequence } from '../requests/sequence.js'
import type { WaitStart, WaitAttribution } from './wait-attribution.js'

type Reasons = Partial<Record<WaitReason, number>>

/** One wait of a request: for its first slot, or for one again after a preemption. */
export class Wait {
  #start: WaitStart
  /** Since when it is held back for a prefix that another request computes. */
  #heldSince: number | undefined
  /** Reasons collected from the finished parts of this wait. */
  #reasons: Reasons = {}

  /**
   * @param now - when it joined the queue: what comes before has no reason here
   * @param since - when it began, which may have been elsewhere
   */
  constructor(
    private readonly times: WaitAttribution,
    private readonly sequence: Sequence,
    now: number,
    readonly since = now,
  ) {
    this.#start = times.begin(now)
  }

  hold(now: number): void {
    this.#reasons = this.reasons(now)
    this.#heldSince = now
  }

  release(now: number): void {
    this.#reasons = this.reasons(now)
    this.#start = this.times.begin(now)
    this.#heldSince = undefined
  }

  /** Milliseconds by reason, up to now. */
  reasons(now: number): Reasons {
    const reasons = { ...this.#reasons }
    if (this.#heldSince === undefined) {
      this.times.explain(this.#start, this.sequence, now, reasons)
    } else if (now > this.#heldSince) {
      reasons.prefix = (reasons.prefix ?? 0) + now - this.#heldSince
    }
    return reasons
  }
}
