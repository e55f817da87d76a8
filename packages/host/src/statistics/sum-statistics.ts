import { type CacheStatistics, defined, type Distribution, type EngineStatistics } from '@cllm/core'

/**
 * Adds up the statistics of two engines, or the same part of them: sums counters and distributions, joins lists, and
 * keeps fields that only one of them has. With {@link pastOf} an earlier engine, counters continue from it.
 */
export function sumStatistics<T extends object>(one: T, other: T): T {
  const left = one as Readonly<Record<string, unknown>>
  const right = other as Readonly<Record<string, unknown>>
  const names = new Set([...Object.keys(left), ...Object.keys(right)])
  const entries = [...names].map((name) => [name, sumOf(name, left[name], right[name])] as const)
  return Object.fromEntries(entries) as T
}

function sumOf(name: string, one: unknown, other: unknown): unknown {
  if (typeof one === 'number' && typeof other === 'number') {
    return name === 'longestPauseMs' ? Math.max(one, other) : one + other
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return [...(one as unknown[]), ...(other as unknown[])]
  }
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    return one ?? other
  }
  return isDistribution(one) && isDistribution(other)
    ? distributionOf(one, other)
    : sumStatistics(one, other)
}

const isDistribution = (value: object): value is Distribution =>
  'bounds' in value && 'counts' in value

/** All engines of a model have the same bounds; the distribution of an engine of another version is left out. */
function distributionOf(one: Distribution, other: Distribution): Distribution {
  if (one.bounds.join() !== other.bounds.join()) return one
  return {
    bounds: one.bounds,
    counts: one.counts.map((count, index) => count + (other.counts[index] ?? 0)),
    sum: one.sum + other.sum,
  }
}

/**
 * The counters of an engine that has left memory; values of the moment, such as running requests, are 0 or left out.
 */
export function pastOf(statistics: EngineStatistics): EngineStatistics {
  const { waitMs: _, kvPool: __, recorder: ___, workers, ...counted } = statistics
  return {
    ...counted,
    waiting: 0,
    running: 0,
    slots: [],
    ...pastParts(statistics),
    ...defined({ workers: workers && { ...workers, list: [] } }),
  }
}

/** {@link pastOf} the parts that an engine may lack: the tiers, and the encoding of images and sounds. */
export const pastParts = ({ cache, encodes }: Pick<EngineStatistics, 'cache' | 'encodes'>) =>
  defined({
    cache: cache && emptied(cache),
    encodes: encodes && { ...encodes, waiting: 0, waitMs: 0 },
  })

/** The tiers of an engine that is gone: their counters, and no content. */
function emptied({ ram, disk, longestPauseMs }: CacheStatistics): CacheStatistics {
  const held = { states: 0, bytes: 0, limitBytes: 0 }
  return {
    ram: { ...ram, ...held },
    ...(disk !== undefined && { disk: { ...disk, ...held } }),
    longestPauseMs,
  }
}
