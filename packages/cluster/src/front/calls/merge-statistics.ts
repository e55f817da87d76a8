import { type EngineStatistics, sumStatistics } from '@cllm/core'

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
