import type { Distribution, EngineStatistics } from '@cllm/core'

/**
 * The statistics of several engines as of one: counters are summed, slots follow each other.
 *
 * @param waits - what a new request is predicted to wait at each that takes requests: the router looks for the least
 */
export function mergeStatistics(
  all: readonly EngineStatistics[],
  waits: readonly number[],
): EngineStatistics {
  const [first, ...others] = all as readonly [EngineStatistics, ...EngineStatistics[]]
  const { waitMs: _, ...sum } = others.reduce(
    (sum, one) => merge(sum, one) as EngineStatistics,
    first,
  )
  const least = waits.length === 0 ? {} : { waitMs: Math.min(...waits) }
  return { ...sum, ...least, slots: sum.slots.map((one, slot) => ({ ...one, slot })) }
}

/** A worker's statistics, with a front's requests under the ids that they have there. */
export function ownStatistics(
  statistics: EngineStatistics,
  prefix: string,
  ids: ReadonlyMap<string, string>,
): EngineStatistics {
  const slots = statistics.slots.map((one) => {
    const { request } = one
    if (request?.startsWith(prefix) !== true) return one
    return { ...one, request: ids.get(request.slice(prefix.length)) ?? request }
  })
  return { ...statistics, slots }
}

/** Two values as one: numbers and distributions are summed, lists follow each other. */
export function merge(one: unknown, other: unknown): unknown {
  if (typeof one === 'number' && typeof other === 'number') return one + other
  if (Array.isArray(one) && Array.isArray(other))
    return [...(one as unknown[]), ...(other as unknown[])]
  if (isDistribution(one) && isDistribution(other)) return mergeDistributions(one, other)
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    return one ?? other
  }
  const [left, right] = [one as Record<string, unknown>, other as Record<string, unknown>]
  const keys = new Set([...Object.keys(left), ...Object.keys(right)])
  return Object.fromEntries([...keys].map((key) => [key, merge(left[key], right[key])]))
}

const isDistribution = (value: unknown): value is Distribution =>
  typeof value === 'object' && value !== null && 'bounds' in value && 'counts' in value

/** All engines of a model have the same bounds; where one is of another version, it is left out. */
function mergeDistributions(one: Distribution, other: Distribution): Distribution {
  if (one.bounds.join() !== other.bounds.join()) return one
  return {
    bounds: one.bounds,
    counts: one.counts.map((count, index) => count + (other.counts[index] ?? 0)),
    sum: one.sum + other.sum,
  }
}
