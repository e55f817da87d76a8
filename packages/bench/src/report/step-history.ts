/** The steps of all machines within an interval of time. */
export interface StepBucket {
  /** Start of the interval, in milliseconds after the start of the run. */
  readonly atMs: number
  readonly steps: number
  readonly prefillTokens: number
  readonly decodeTokens: number
  readonly busyMs: number
}

/** A plot cannot show more intervals than this. */
const most = 512

type Bucket = { -readonly [Key in keyof StepBucket]: StepBucket[Key] }

/**
 * The composition of steps over time in bounded memory: intervals of equal length, which are merged
 * in pairs whenever there are too many.
 */
export class StepHistory {
  #buckets: Bucket[] = []
  #lengthMs = 10

  /** Adds one step or several. */
  add(part: StepBucket): void {
    while (part.atMs >= this.#lengthMs * most) this.#join()
    this.#put(part)
  }

  /** The intervals with steps in them, by time. */
  list(): StepBucket[] {
    return Object.values(this.#buckets)
  }

  #join(): void {
    this.#lengthMs *= 2
    const parts = this.list()
    this.#buckets = []
    for (const part of parts) this.#put(part)
  }

  #put({ atMs, steps, prefillTokens, decodeTokens, busyMs }: StepBucket): void {
    const index = Math.floor(atMs / this.#lengthMs)
    const empty = {
      atMs: index * this.#lengthMs,
      steps: 0,
      prefillTokens: 0,
      decodeTokens: 0,
      busyMs: 0,
    }
    const bucket = (this.#buckets[index] ??= empty)
    bucket.steps += steps
    bucket.prefillTokens += prefillTokens
    bucket.decodeTokens += decodeTokens
    bucket.busyMs += busyMs
  }
}
