import type { CacheStatistics, TierStatistics } from '../contracts/engine/cache-statistics.js'

const counters = [
  'hits',
  'hitTokens',
  'misses',
  'saved',
  'skipped',
  'failed',
  'evictions',
  'saveMs',
  'loadMs',
] as const

/** Counters of the tiers that go on when an engine is replaced. */
export class LastingCacheCounters {
  #before: CacheStatistics | undefined
  #last: CacheStatistics | undefined

  /** What the engine says, and what those before it had counted when they were asked last. */
  onStatistics(cache: CacheStatistics): CacheStatistics {
    const { ram, disk, longestPauseMs } = cache
    const sum: CacheStatistics = {
      ram: sumOf(ram, this.#before?.ram),
      ...(disk !== undefined && { disk: sumOf(disk, this.#before?.disk) }),
      longestPauseMs: Math.max(longestPauseMs, this.#before?.longestPauseMs ?? 0),
    }
    this.#last = sum
    return sum
  }

  /** The engine is gone: the next one counts from 0. */
  onExit(): void {
    this.#before = this.#last
  }
}

function sumOf(now: TierStatistics, before: TierStatistics | undefined): TierStatistics {
  if (before === undefined) return now
  const sums = counters.map((name) => [name, now[name] + before[name]] as const)
  return { ...now, ...Object.fromEntries(sums) }
}
