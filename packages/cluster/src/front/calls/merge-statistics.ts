import type { EngineStatistics } from '@cllm/core'
import { sumStatistics } from '@cllm/host'
import type { CallContext } from './call-kind.js'

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

/** Of all workers. Those of a worker that cannot answer now are as they were, so that no counter goes back. */
export function lastOfAll({
  members,
  placing,
  statistics,
  refusedMessages,
}: CallContext): EngineStatistics {
  const { placed, movedExactly, movedInexactly } = placing.counts
  const waits: number[] = []
  const all = members.all.flatMap(({ record, state }) => {
    const last = statistics.get(record.id)
    if (state === 'up' && last?.waitMs !== undefined) waits.push(last.waitMs)
    return last === undefined ? [] : [last]
  })
  const list = members.statistics
  const counts = { placed, movedExactly, movedInexactly }
  const workers = { list, ...counts, refusedMessages: refusedMessages() }
  return { ...mergeStatistics([...all, ...statistics.gone], waits), workers }
}
