import type { SchedulerPolicy } from '@cllm/core'
import type { Batching } from './batching.js'
import type { Order } from './order.js'

/**
 * A policy that is the product of two independent decisions: what a step looks like and who is next.
 * It is named `batching+order`, such as `adaptive+fcfs`, and has the options of both.
 */
export function composePolicy(batching: Batching, order: Order): SchedulerPolicy {
  return {
    name: `${batching.name}+${order.name}`,
    options: { ...batching.options, ...order.options },
    plan: (state) => ({
      preempt: [],
      reject: [],
      ...batching.plan(state, order.next(state)),
    }),
    observe(event) {
      batching.observe?.(event)
      order.observe?.(event)
    },
  }
}
