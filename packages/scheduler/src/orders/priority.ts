import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { TokenClock } from '../token-clock.js'
import { findVictims } from '../victims.js'
import { WaitingHeap } from '../waiting-heap.js'

/** Options of {@link priority}. */
export interface PriorityOptions extends PatienceOptions {
  /** Waiting while so many tokens are computed counts as one priority. Default 4,096. */
  readonly agingTokens?: number
  /**
   * A running request loses its slot to a waiting one whose priority is higher by this much. Default
   * 10; null: never.
   */
  readonly preemptionThreshold?: number | null
}

/**
 * The highest `priority` first, equals by arrival. Priorities grow with waiting, and a request that is
 * urgent enough takes the slot of the least that runs. After vLLM and SGLang, both without aging.
 * Overtaking is bounded by {@link overtakingBound}.
 */
export function priority(options: PriorityOptions = {}): Order {
  const { agingTokens = 4096, preemptionThreshold = 10, patience } = options
  const clock = new TokenClock()
  // All that wait age alike, so ranks do not change while they wait.
  const heap = new WaitingHeap((request) => clock.cameAt(request) / agingTokens - request.priority)
  const order: Order = {
    name: 'priority',
    options: { agingTokens, preemptionThreshold },
    next: (state) => heap.inOrder(state),
    preempt(state) {
      if (preemptionThreshold === null) return []
      return findVictims(state, heap.inOrder(state), (request, victim) => {
        return request.priority >= victim.priority + preemptionThreshold
      })
    },
    observe(event) {
      clock.observe(event)
      heap.observe(event)
    },
  }
  return boundedOvertaking(order, patience)
}
