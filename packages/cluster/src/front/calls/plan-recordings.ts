import type { RecordingParts } from '@cllm/core'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'
import { mergeRecordings } from './merge-recordings.js'
import { ownId } from './own-activity.js'

/** All workers together. Requests of other fronts keep the ids that their worker gave them. */
export function planRecordings(_: CallMessage, { members, placing }: CallContext): CallPlan {
  const to = members.allForCall()
  return {
    to,
    merge(answers) {
      const ids = placing.idsByPlacement()
      const all = to.flatMap(({ record, link }) => {
        const parts = answers.get(record.id) as RecordingParts | undefined
        if (parts === undefined) return []
        const toOwn = ownId(link.id, ids)
        return [
          { ...parts, arrivals: parts.arrivals.map((one) => ({ ...one, id: toOwn(one.id) })) },
        ]
      })
      return mergeRecordings(all)
    },
  }
}
