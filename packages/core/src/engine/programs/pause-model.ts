/** Upper bounds of the buckets, in milliseconds: each twice the one before, up to half an hour. */
const bounds: readonly number[] = Array.from({ length: 18 }, (_, index) => 16 * 2 ** index)

/** After this long a program counts as gone. */
export const longestPause = bounds[bounds.length - 1]!

/** What is known before anything was seen: that many pauses … */
const priorPauses = 16
/** … of which such a share was over by a time, of the agents of vllm-project/router#285. */
const priorEnds: readonly (readonly [ms: number, share: number])[] = [
  [16, 0.02],
  [1000, 0.8],
  [10_000, 0.88],
  [longestPause, 0.92],
]
/** What all programs do counts as much as this many pauses of the program itself. */
const othersWeight = 4

/**
 * The distribution of pauses between the requests of programs: for each of some bounds, how many pauses
 * lasted until the one before it, and how many of these ended before it. A pause that has not ended, or never
 * will, counts as far as it has lasted (as in Kaplan and Meier's estimate).
 */
export class PauseModel {
  readonly #reached: number[]
  readonly #ended: number[]

  /** @param others - the pauses of all programs, for one that has few of its own; default: what is published */
  constructor(private readonly others?: PauseModel) {
    this.#reached = bounds.map((_, index) =>
      others ? 0 : priorPauses * (1 - priorShare(index - 1)),
    )
    this.#ended = bounds.map((_, index) =>
      others ? 0 : priorPauses * (priorShare(index) - priorShare(index - 1)),
    )
  }

  /**
   * A pause lasts or, where it `hasEnded`, has lasted so long; returns the bucket up to which it was counted.
   *
   * @param counted - what this returned for the same pause before; 0: nothing yet
   */
  count(ms: number, counted: number, hasEnded: boolean): number {
    let bucket = counted
    for (; bucket < bounds.length; bucket++) {
      if (bucket > 0 && bounds[bucket - 1]! > ms) break
      this.#reached[bucket]!++
    }
    if (hasEnded && bucket > 0 && ms < longestPause) this.#ended[bucket - 1]!++
    return bucket
  }

  /**
   * How many returns a millisecond of waiting for one brings, at best, after a pause of so long: the chance that it
   * ends within some time by the time that is waited then, with the time that makes the most of it.
   */
  rate(ms: number): number {
    let [lasts, waitedMs, from, best] = [1, 0, ms, 0]
    for (let bucket = 0; bucket < bounds.length; bucket++) {
      const bound = bounds[bucket]!
      if (bound <= ms) continue
      const ends = lasts * this.#hazard(bucket)
      waitedMs += (lasts - ends / 2) * (bound - from)
      lasts -= ends
      from = bound
      best = Math.max(best, (1 - lasts) / waitedMs)
    }
    return best
  }

  /** The share of the pauses that lasted until a bucket which ended in it. */
  #hazard(bucket: number): number {
    const { others } = this
    let [ended, reached] = [this.#ended[bucket]!, this.#reached[bucket]!]
    if (others !== undefined) {
      ended += othersWeight * others.#hazard(bucket)
      reached += othersWeight
    }
    return reached > 0 ? ended / reached : 0
  }
}

/** The share of pauses that are over by the end of a bucket, evenly over the logarithm between the points. */
function priorShare(bucket: number): number {
  const ms = bounds[bucket] ?? 0
  let [fromMs, from] = [1, 0]
  for (const [toMs, to] of priorEnds) {
    if (ms <= toMs)
      return ms <= fromMs
        ? from
        : from + ((to - from) * Math.log(ms / fromMs)) / Math.log(toMs / fromMs)
    ;[fromMs, from] = [toMs, to]
  }
  return from
}
