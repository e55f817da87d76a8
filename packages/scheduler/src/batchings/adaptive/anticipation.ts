import type { SchedulerEvent } from '@cllm/core'

/** The share of ends that must have been followed before another one is waited for. */
const worthWaiting = 0.5
/** How much each end counts for that share. */
const weight = 1 / 8
/** Starts high, so that waiting is tried: without it, a client finds busy cores and returns later. */
const shareAtFirst = 0.75

/**
 * Expects the next request of a client whose last one has just ended. Clients that send one request
 * after the other come back within milliseconds, just too late for the step that begins at once: a
 * step later for them, and a hole among the slots meanwhile. Where experience says that they come,
 * a step waits for them a moment (anticipatory scheduling: Iyer and Druschel, SOSP '01).
 */
export class Anticipation {
  /** When the requests ended whose followers are still due, the oldest first. */
  #due: number[] = []
  #share = shareAtFirst
  #patienceMs = 0

  /** Learns from a request that has ended as it should, or has come. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'finished' && event.request.state === 'done') this.#due.push(event.now)
    if (event.type !== 'queued') return
    this.#giveUp(event.now)
    if (this.#due.shift() !== undefined) this.#share += weight * (1 - this.#share)
  }

  /**
   * Until when to wait for the requests that are due, or undefined when it is not worth it.
   *
   * @param patienceMs - how long after an end its follower is waited for
   */
  waitUntil(now: number, patienceMs: number): number | undefined {
    this.#patienceMs = patienceMs
    this.#giveUp(now)
    const last = this.#due.at(-1)
    return last === undefined || this.#share < worthWaiting ? undefined : last + patienceMs
  }

  #giveUp(now: number): void {
    let late = 0
    while (late < this.#due.length && this.#due[late]! + this.#patienceMs <= now) late++
    if (late === 0) return
    this.#share *= (1 - weight) ** late
    this.#due.splice(0, late)
  }
}
