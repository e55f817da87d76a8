import TinyQueue from 'tinyqueue'
import type { Clock } from '../contracts/clock.js'

interface Timer {
  readonly at: number
  /** Counts the timers: of timers with the same time the oldest fires first. */
  readonly turn: number
  callback: (() => void) | undefined
}

/** Time that moves only by `advance`, for tests and simulations. */
export class SimulatedClock implements Clock {
  #now: number
  readonly #timers = new TinyQueue<Timer>([], (a, b) => a.at - b.at || a.turn - b.turn)
  #turns = 0

  constructor(start = 0) {
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  at(at: number, callback: () => void): () => void {
    const timer: Timer = { at, turn: this.#turns++, callback }
    this.#timers.push(timer)
    return () => void (timer.callback = undefined)
  }

  /** Moves on by `milliseconds`, calling each timer at its own time. */
  advance(milliseconds: number): void {
    this.advanceTo(this.#now + milliseconds)
  }

  /** Moves on to a time that is not before now, calling each timer at its own time. */
  advanceTo(end: number): void {
    for (let next = this.#next(); next !== undefined && next.at <= end; next = this.#next()) {
      this.#timers.pop()
      this.#now = Math.max(this.#now, next.at)
      next.callback?.()
    }
    this.#now = end
  }

  /** When the earliest timer is due, or undefined. */
  nextTimer(): number | undefined {
    return this.#next()?.at
  }

  #next(): Timer | undefined {
    while (this.#timers.peek()?.callback === undefined && this.#timers.length > 0) {
      this.#timers.pop()
    }
    return this.#timers.peek()
  }
}
