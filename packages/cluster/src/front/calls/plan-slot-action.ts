import { CllmError } from '@cllm/core'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'

/** Slots are counted through, in the order of the workers. */
export function planSlotAction(message: CallMessage, { members }: CallContext): CallPlan {
  const [slot, ...more] = message.arguments as [number, ...unknown[]]
  let own = slot
  for (const member of members.allForCall()) {
    const slots = member.report?.slots ?? 0
    if (own < slots) {
      const there = { ...message, arguments: [own, ...more] }
      const { id } = member.record
      return {
        to: [member],
        messageTo: () => there,
        merge: (answers) => ({ ...(answers.get(id) as object), slot }),
      }
    }
    own -= slots
  }
  throw new CllmError('invalid_request', `There is no slot ${slot}`)
}
