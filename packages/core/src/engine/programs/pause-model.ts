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
/** What each of the others does, or a client has told, counts as much as this many pauses of one's own. */
const othersWeight = 4

/**
 * The distribution of pauses between the requests of programs: for each of some bounds, how many pauses
 * lasted until the one before it, and how many of these ended before it. A pause that has not ended, or never
 * will, counts as far as it has lasted (as in Kaplan and Meier's estimate).
 */
export class PauseModel {
  readonly #reached: number[]
  readonly #ended: number[]

  /** @param others - what its own pauses may be like, while they are few; without any: what is published */
  constructor(private readonly others: readonly PauseModel[] = []) {
    const isFirst = others.length === 0
    this.#reached = bounds.map((_, index) =>
      isFirst ? priorPauses * (1 - priorShare(index - 1)) : 0,
    )
    this.#ended = bounds.map((_, index) =>
      isFirst ? priorPauses * (priorShare(index) - priorShare(index - 1)) : 0,
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
   * What is to be expected of a pause of so long.
   *
   * @param retainMs - after how long at the latest it is over, as the client has told; 0: never. One prior of
   *   several, which says nothing any more when that time is over
   */
  after(ms: number, retainMs?: number): Expectation {
    let [lasts, waitedMs, from, rate] = [1, 0, ms, 0]
    const told = retainMs === undefined || (retainMs > 0 && ms >= retainMs) ? undefined : retainMs
    for (let bucket = 0; bucket < bounds.length; bucket++) {
      const bound = bounds[bucket]!
      if (bound <= ms) continue
      const ends = lasts * this.#hazard(bucket, told)
      waitedMs += (lasts - ends / 2) * (bound - from)
      lasts -= ends
      from = bound
      rate = Math.max(rate, (1 - lasts) / waitedMs)
    }
    return { rate, chance: 1 - lasts }
  }

  /** The share of the pauses that lasted until a bucket which ended in it. */
  #hazard(bucket: number, told?: number): number {
    let [ended, reached] = [this.#ended[bucket]!, this.#reached[bucket]!]
    for (const other of this.others) {
      ended += othersWeight * other.#hazard(bucket)
      reached += othersWeight
    }
    if (told !== undefined) {
      ended += othersWeight * toldHazard(bucket, told)
      reached += othersWeight
    }
    return reached > 0 ? ended / reached : 0
  }
}

/** What is to be expected of a pause. */
export interface Expectation {
  /**
   * How many returns a millisecond of waiting for one brings, at best: the chance that it ends within some time by
   * the time that is waited then, with the time that makes the most of it.
   */
  readonly rate: number
  /** The chance that it ends at all. */
  readonly chance: number
}

/** The pauses of all programs, and of each tenant's after the tools that they call. */
export class Pauses {
  readonly all = new PauseModel()
  readonly #tools = new Map<string, PauseModel>()

  get hasTools(): boolean {
    return this.#tools.size > 0
  }

  /** Whether some program paused for this tool. */
  knows(tenant: string, tool: string): boolean {
    return this.#tools.has(JSON.stringify([tenant, tool]))
  }

  of(tenant: string, tool: string): PauseModel {
    const key = JSON.stringify([tenant, tool])
    const model = this.#tools.get(key) ?? new PauseModel([this.all])
    this.#tools.delete(key)
    this.#tools.set(key, model)
    const [oldest] = this.#tools.keys()
    if (this.#tools.size > mostTools) this.#tools.delete(oldest!)
    return model
  }
}

/** Tools that are remembered. */
const mostTools = 1000

/** Evenly over the buckets up to the time that was told, and none behind it. */
function toldHazard(bucket: number, told: number): number {
  const last = bounds.findIndex((bound) => bound >= told)
  const left = (told === 0 ? -1 : last === -1 ? bounds.length - 1 : last) - bucket
  return left < 0 ? 0 : 1 / (left + 1)
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
