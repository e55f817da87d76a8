import type { Clock, Random, TimerOptions } from '../contracts/clock.js'

/** A timer of more milliseconds (24.8 days) would go off at once. */
const longest = 2 ** 31 - 1

/** Real time: the monotonic clock, moved to the epoch at start-up. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.timeOrigin + performance.now(),
  at(at: number, callback: () => void, { keepsAlive = false }: TimerOptions = {}) {
    let timer: NodeJS.Timeout
    const wait = (): void => {
      // Timers count whole milliseconds: rounding up keeps the promise that `now()` has reached `at`.
      const milliseconds = Math.max(0, Math.ceil(at - systemClock.now()))
      timer = setTimeout(milliseconds > longest ? wait : callback, Math.min(milliseconds, longest))
      if (!keepsAlive) timer.unref()
    }
    wait()
    return () => clearTimeout(timer)
  },
})

/** Numbers of the operating system's generator. */
export const systemRandom: Random = Object.freeze({
  uint32: () => crypto.getRandomValues(new Uint32Array(1))[0] ?? 0,
})
