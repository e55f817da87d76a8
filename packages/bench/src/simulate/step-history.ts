import type { SimulatedStep } from '@cllm/scheduler/simulation'
import type { StepBucket } from './simulation-result.js'

/** More parts of the time than this are not seen in a plot. */
const most = 512

type Bucket = { -readonly [Key in keyof StepBucket]: StepBucket[Key] }

/**
 * What steps were made of over time, in few numbers however many they are: parts of equal length that
 * are joined in pairs whenever there are too many.
 */
export class StepHistory {
  #buckets: Bucket[] = []
  #lengthMs = 10

  add({ startedAt, durationMs, prefillTokens, decodeSequences }: SimulatedStep): void {
    while (startedAt >= this.#lengthMs * most) this.#join()
    const index = Math.floor(startedAt / this.#lengthMs)
    const bucket = (this.#buckets[index] ??= this.#empty(index))
    bucket.steps++
    bucket.prefillTokens += prefillTokens
    bucket.decodeTokens += decodeSequences
    bucket.busyMs += durationMs
  }

  /** The parts with steps in them, by time. */
  list(): StepBucket[] {
    return Object.values(this.#buckets)
  }

  #join(): void {
    this.#lengthMs *= 2
    const joined: Bucket[] = []
    for (const [key, { steps, prefillTokens, decodeTokens, busyMs }] of Object.entries(
      this.#buckets,
    )) {
      const index = Math.floor(Number(key) / 2)
      const bucket = (joined[index] ??= this.#empty(index))
      bucket.steps += steps
      bucket.prefillTokens += prefillTokens
      bucket.decodeTokens += decodeTokens
      bucket.busyMs += busyMs
    }
    this.#buckets = joined
  }

  #empty(index: number): Bucket {
    return {
      atMs: index * this.#lengthMs,
      steps: 0,
      prefillTokens: 0,
      decodeTokens: 0,
      busyMs: 0,
    }
  }
}
