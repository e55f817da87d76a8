import type { EngineStatistics } from '@cllm/core'
import { sumStatistics } from '@cllm/host'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'

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
function ownStatistics(
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

/** All workers together. Those of a worker that cannot answer now are as they were, so that no counter goes back. */
export function planStatistics(
  _: CallMessage,
  { members, placing, statistics, refusedMessages }: CallContext,
): CallPlan {
  const to = members.allForCall()
  const { placed, movedExactly, movedInexactly } = placing.counts
  return {
    to,
    merge() {
      const ids = placing.idsByPlacement()
      const waits: number[] = []
      const all = to.flatMap(({ record, link, state }) => {
        const last = statistics.get(record.id)
        if (state === 'up' && last?.waitMs !== undefined) waits.push(last.waitMs)
        return last === undefined ? [] : [ownStatistics(last, `${link.id}/`, ids)]
      })
      const list = members.statistics
      const counts = { placed, movedExactly, movedInexactly }
      const workers = { list, ...counts, refusedMessages: refusedMessages() }
      return { ...mergeStatistics([...all, ...statistics.gone], waits), workers }
    },
  }
}
