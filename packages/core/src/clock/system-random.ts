import type { Random } from '../contracts/clock.js'

/** Numbers of the operating system's generator. */
export const systemRandom: Random = Object.freeze({
  uint32: () => crypto.getRandomValues(new Uint32Array(1))[0] ?? 0,
})
