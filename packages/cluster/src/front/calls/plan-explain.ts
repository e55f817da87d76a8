import { CllmError, type RequestReport } from '@cllm/core'
import type { CallContext, CallMessage, CallPlan } from './call-kind.js'

/** The worker that has or had a request knows what happened to it, under the id that it has there. */
export function planExplain(call: CallMessage, { members, placing }: CallContext): CallPlan {
  const [id] = call.arguments as [string]
  const placed = placing.find(id)
  const member = members.get(placed?.worker)
  if (placed === undefined || member === undefined) {
    const message = `No request with the id "${id}" is known here`
    throw new CllmError('request_not_found', message, { details: { id } })
  }
  const there = { ...call, arguments: [`${member.link.id}/${placed.placement}`] }
  const { worker = '', moves } = placed
  return {
    to: [member],
    messageTo: () => there,
    merge(answers) {
      const report = answers.get(worker) as RequestReport
      return { ...report, id, worker, moves }
    },
  }
}
