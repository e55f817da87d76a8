import type { SchedulerPolicy } from '@cllm/core'
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
    plan(state) {
      const view = oneStepGroup(state, order.next(state), lastGroup)
      lastGroup = view.group
      return { preempt: [], reject: [], ...batching.plan(view.state, view.next) }
    },
    observe(event) {
      batching.observe?.(event)
      order.observe?.(event)
    },
  }
}
