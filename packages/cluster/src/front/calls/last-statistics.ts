import type { EngineStatistics } from '@cllm/core'
import { pastOf, sumStatistics } from '@cllm/host'

/** Workers that are gone and are remembered one by one, as they may come back; more where more are there at once. */
const mostGone = 100

/** What each worker said last of itself, and what those that are gone have counted: no sum goes back. */
export class LastStatistics {
  readonly #last = new Map<string, EngineStatistics>()
  readonly #gone = new Map<string, EngineStatistics>()
  /** The most workers that were there at once: all of them may be gone at once, and come back. */
  #mostThere = 0
  /** Of those that are gone for longest. */
  #sum: EngineStatistics | undefined

  /** A worker says this of itself. */
  set(worker: string, statistics: EngineStatistics): void {
    this.#gone.delete(worker)
    this.#last.set(worker, statistics)
    this.#mostThere = Math.max(this.#mostThere, this.#last.size)
  }

  /** What a worker said last; undefined: nothing since it came. */
  get(worker: string): EngineStatistics | undefined {
    return this.#last.get(worker)
  }

  /** A worker is gone. */
  lose(worker: string): void {
    const last = this.#last.get(worker)
    if (last === undefined) return
    this.#last.delete(worker)
    this.#gone.set(worker, pastOf(last))
    const [oldest] = this.#gone
    const limit = Math.max(mostGone, this.#mostThere)
    if (this.#gone.size <= limit || oldest === undefined) return
    this.#gone.delete(oldest[0])
    this.#sum = this.#sum === undefined ? oldest[1] : sumStatistics(this.#sum, oldest[1])
  }

  /** What was counted by those that are gone, and by those that came back and have said nothing yet. */
  get gone(): readonly EngineStatistics[] {
    return [...this.#gone.values(), ...(this.#sum === undefined ? [] : [this.#sum])]
  }
}

/**
 * The statistics of several engines as of one: counters add up, slots follow each other.
 *
 * @param waits - what a new request is predicted to wait at each that takes requests: the router looks for the least
 */
export function mergeStatistics(
  all: readonly EngineStatistics[],
  waits: readonly number[],
): EngineStatistics {
  const [first, ...others] = all as readonly [EngineStatistics, ...EngineStatistics[]]
  const { waitMs: _, ...sum } = others.reduce((sum, one) => sumStatistics(sum, one), first)
  const least = waits.length === 0 ? {} : { waitMs: Math.min(...waits) }
  return { ...sum, ...least, slots: sum.slots.map((one, slot) => ({ ...one, slot })) }
}
