import type { CallContext, CallMessage, CallPlan } from './call-kind.js'
import { mergeStatistics, ownStatistics } from './merge-statistics.js'

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
