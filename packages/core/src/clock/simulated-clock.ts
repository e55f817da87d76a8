import type { Clock } from '../contracts/clock.js'

interface Timer {
  readonly at: number
  readonly callback: () => void
}

/** Time that moves only when told, for tests and simulations. */
export class SimulatedClock implements Clock {
  #now: number
  readonly #timers = new Set<Timer>()

  constructor(start = 0) {
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  at(at: number, callback: () => void): () => void {
    const timer = { at, callback }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Moves on by `milliseconds`, calling each timer at its own time. */
  advance(milliseconds: number): void {
    const end = this.#now + milliseconds
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.callback()
    }
    this.#now = end
  }

  /** When the earliest timer is due, or undefined. */
  nextTimer(): number | undefined {
    return this.#next(Infinity)?.at
  }

  #next(until: number): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (timer.at <= until && (first === undefined || timer.at < first.at)) first = timer
    }
    return first
  }
}
