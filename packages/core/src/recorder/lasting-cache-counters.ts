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
    this.#last = cacheGoingOn(cache, this.#before)
    return this.#last
  }

  /** The engine is gone: the next one counts from 0. */
  onExit(): void {
    this.#before = this.#last
  }
}

/** The tiers of an engine, whose counters go on from those of the one before. */
export function cacheGoingOn(
  { ram, disk, longestPauseMs }: CacheStatistics,
  before: CacheStatistics | undefined,
): CacheStatistics {
  return {
    ram: sumOf(ram, before?.ram),
    ...(disk !== undefined && { disk: sumOf(disk, before?.disk) }),
    longestPauseMs: Math.max(longestPauseMs, before?.longestPauseMs ?? 0),
  }
}

/** The tiers of an engine that is gone: what they had counted, and nothing in them. */
export function emptied({ ram, disk, longestPauseMs }: CacheStatistics): CacheStatistics {
  const held = { states: 0, bytes: 0, limitBytes: 0 }
  return {
    ram: { ...ram, ...held },
    ...(disk !== undefined && { disk: { ...disk, ...held } }),
    longestPauseMs,
  }
}

function sumOf(now: TierStatistics, before: TierStatistics | undefined): TierStatistics {
  if (before === undefined) return now
  const sums = counters.map((name) => [name, now[name] + before[name]] as const)
  return { ...now, ...Object.fromEntries(sums) }
}
