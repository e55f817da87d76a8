import { fillerWords } from '../../packages/bench/dist/workload/prompt-text.js'

/** A seeded generator of numbers from 0 to 1 (mulberry32). */
export function randomOf(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let value = Math.imul(state ^ (state >>> 15), state | 1)
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61)
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296
  }
}

/** A text of this many words, new each time, so that no server's cache helps. */
export function text(count, random) {
  const pick = () => fillerWords[Math.floor(random() * fillerWords.length)]
  return Array.from({ length: count }, pick).join(' ')
}
