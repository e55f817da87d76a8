import type { EngineActivity } from '@cllm/core'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'
import { mergeActivities } from './merge-activity.js'

/** All workers together. Requests of other fronts keep the ids that their worker gave them. */
export function planActivity(
  message: CallMessage,
  { members, placing, cursors }: CallContext,
): CallPlan {
  const to = members.allForCall()
  const [cursor] = message.arguments as [number | undefined]
  const since = cursors.get(cursor)
  return {
    to,
    messageTo: ({ record }) => ({ ...message, arguments: [since?.get(record.id)] }),
    merge(answers) {
      const ids = placing.idsByPlacement()
      const reached = new Map<string, number>()
      const all = to.flatMap(({ record, link }) => {
        const activity = answers.get(record.id) as EngineActivity | undefined
        if (activity === undefined) {
          const seen = since?.get(record.id)
          if (seen !== undefined) reached.set(record.id, seen)
          return []
        }
        reached.set(record.id, activity.cursor)
        return [ownActivity(activity, ownId(link.id, ids))]
      })
      return mergeActivities(all, cursors.add(reached))
    },
  }
}

/** What a worker's engine did, with a front's requests under the ids that they have there. */
function ownActivity(activity: EngineActivity, toOwn: (id: string) => string): EngineActivity {
  const rename = <T extends { readonly id: string }>(one: T): T => ({ ...one, id: toOwn(one.id) })
  return {
    ...activity,
    slots: activity.slots.map(({ request, ...slot }) => ({
      ...slot,
      request: request === undefined ? undefined : toOwn(request),
    })),
    queue: activity.queue.map(rename),
    frames: activity.frames.map((frame) => ({
      ...frame,
      spans: frame.spans.map(rename),
      ended: frame.ended.map(rename),
    })),
  }
}

/** The id here of a request that a worker has under the name of a link; of another front's that which it has there. */
export function ownId(link: string, ids: ReadonlyMap<string, string>): (id: string) => string {
  const prefix = `${link}/`
  return (id) => (id.startsWith(prefix) ? (ids.get(id.slice(prefix.length)) ?? id) : id)
}
