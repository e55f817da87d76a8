import type { Clock, Random, TimerOptions } from '../contracts/clock.js'

/** A timer of more milliseconds (24.8 days) would go off at once. */
const longest = 2 ** 31 - 1

/** Real time: the monotonic clock, moved to the epoch at start-up. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.timeOrigin + performance.now(),
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

/** Numbers of the operating system's generator. */
export const systemRandom: Random = Object.freeze({
  uint32: () => crypto.getRandomValues(new Uint32Array(1))[0] ?? 0,
})
