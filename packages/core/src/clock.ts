import type { Clock, Random, TimerOptions } from './contracts/services.js'
import TinyQueue from 'tinyqueue'

/** The longest delay of a JavaScript timer (24.8 days): a longer one would fire at once. */
const longest = 2 ** 31 - 1

/** Real time: the monotonic clock, moved to the epoch at start-up. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.timeOrigin + performance.now(),
  // oxlint-disable-next-line no-restricted-properties -- this is what is injected
  wall: () => Date.now(),
  at(at: number, callback: () => void, options: TimerOptions = {}) {
    // Timers count whole milliseconds: rounding up keeps the promise that `now()` has reached `at`.
    const milliseconds = Math.max(0, Math.ceil(at - systemClock.now()))
    let cancelNext: (() => void) | undefined
    const timer =
      milliseconds > longest
        ? setTimeout(() => (cancelNext = systemClock.at(at, callback, options)), longest)
        : setTimeout(callback, milliseconds)
    if (options.keepsAlive !== true) timer.unref()
    return () => {
      clearTimeout(timer)
      cancelNext?.()
    }
  },
})

/** Numbers are generated in batches: one number takes as long as all of these. */
const drawn = new Uint32Array(1024)
let used = drawn.length

/** Random numbers from the operating system. */
export const systemRandom: Random = Object.freeze({
  uint32() {
    if (used === drawn.length) {
      crypto.getRandomValues(drawn)
      used = 0
    }
    return drawn[used++]!
  },
})

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
  /** How far `wall()` is ahead of `now()`, as after the machine slept or its clock was set. */
  aheadMs = 0

  constructor(start = 0) {
    this.#now = start
  }

  now(): number {
    return this.#now
  }

  wall(): number {
    return this.#now + this.aheadMs
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

/** Resolves after this many milliseconds, or when the signal fires. */
export async function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = (): void => {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.at(clock.now() + ms, done)
    signal?.addEventListener('abort', done)
    if (signal?.aborted === true) done()
  })
}

/**
 * The answer, or the result of `late` if the answer takes longer than `ms`. A later answer, or its failure, is ignored.
 *
 * @param ms - milliseconds from now
 * @throws what the answer or `late` throws
 */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  answer: Promise<T>,
  late: () => Late | Promise<Late>,
  options?: TimerOptions,
): Promise<T | Late> {
  let cancel = (): void => {}
  const tooLate = new Promise<void>((resolve) => {
    cancel = clock.at(clock.now() + ms, resolve, options)
  })
  return await Promise.race([answer, tooLate.then(late)]).finally(cancel)
}
