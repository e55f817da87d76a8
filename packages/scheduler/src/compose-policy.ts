import type { SchedulerPolicy, SchedulerState, SequenceView } from '@cllm/core'
import type { Batching } from './batching.js'
import { oneStepGroup } from './one-step-group.js'
import type { Order } from './order.js'

/**
 * A policy that is the product of two independent decisions: what a step looks like and who is next.
 * It is named `batching+order`, such as `adaptive+fcfs`, and has the options of both.
 */
export function composePolicy(batching: Batching, order: Order): SchedulerPolicy {
  let lastGroup: string | undefined
  return {
    name: `${batching.name}+${order.name}`,
    options: { ...batching.options, ...order.options },
    plan(given) {
      const reject = order.reject?.(given) ?? []
      const canPreempt = given.freeSlots === 0 && batching.inGroups !== true
      const victims = canPreempt ? (order.preempt?.(given) ?? []) : []
      const state = withoutVictims(given, victims)
      const next = except(order.next(state), new Set(reject.map(({ id }) => id)))
      const view = oneStepGroup(state, next, lastGroup)
      lastGroup = view.group
      const preempt = victims.map(({ id }) => id)
      return { preempt, reject, ...batching.plan(view.state, view.next) }
    },
    observe(event) {
      batching.observe?.(event)
      order.observe?.(event)
    },
  }
}

function withoutVictims(state: SchedulerState, victims: readonly SequenceView[]): SchedulerState {
  if (victims.length === 0) return state
  const running = state.running.filter((request) => !victims.includes(request))
  return { ...state, running, freeSlots: state.freeSlots + victims.length }
}

function* except(
  requests: Iterable<SequenceView>,
  left: ReadonlySet<string>,
): Iterable<SequenceView> {
  for (const request of requests) if (!left.has(request.id)) yield request
}
