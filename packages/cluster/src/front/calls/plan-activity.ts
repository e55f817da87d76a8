import type { EngineActivity } from '@cllm/core'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'
import { mergeActivities } from './merge-activity.js'

/** All workers together. Requests of other fronts keep the ids that their worker gave them. */
export function planActivity(message: CallMessage, { members, cursors }: CallContext): CallPlan {
  const to = members.allForCall()
  const [cursor] = message.arguments as [number | undefined]
  const since = cursors.get(cursor)
  return {
    to,
    messageTo: ({ record }) => ({ ...message, arguments: [since?.get(record.id)] }),
    merge(answers) {
      const reached = new Map<string, number>()
      const all = to.flatMap(({ record }) => {
        const activity = answers.get(record.id) as EngineActivity | undefined
        if (activity === undefined) {
          const seen = since?.get(record.id)
          if (seen !== undefined) reached.set(record.id, seen)
          return []
        }
        reached.set(record.id, activity.cursor)
        return [activity]
      })
      return mergeActivities(all, cursors.add(reached))
    },
  }
}
