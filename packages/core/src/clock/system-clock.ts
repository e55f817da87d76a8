import type { Clock } from '../contracts/clock.js'

/** Real time: the monotonic clock, moved to the epoch at start-up. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.timeOrigin + performance.now(),
  at(at: number, callback: () => void) {
    // Timers count whole milliseconds: rounding up keeps the promise that `now()` has reached `at`.
    const timer = setTimeout(callback, Math.max(0, Math.ceil(at - systemClock.now())))
    timer.unref()
    return () => clearTimeout(timer)
  },
})
