import type { SequenceView } from '@cllm/core'
import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { findVictims } from '../victims.js'
import { WaitingHeap } from '../waiting-heap.js'

/** Options of {@link mlfq}. */
export interface MlfqOptions extends PatienceOptions {
  /** Tokens of service in the first level; each further one is twice as long. Default 256. */
  readonly quantum?: number
  /** Default 5. */
  readonly levels?: number
  /**
   * A running request loses its slot to a waiting one that is this many levels above it. Default 2;
   * null: never.
   */
  readonly preemptionLevels?: number | null
}

/**
 * A multi-level feedback queue: who had least service first, in levels, equals by arrival. A request
 * starts at the level of its prompt (skip-join) and sinks as it generates; waiting too long lifts it
 * to the top. After FastServe (arXiv 2305.05920). Overtaking is bounded by {@link overtakingBound}.
 */
export function mlfq(options: MlfqOptions = {}): Order {
  const { quantum = 256, levels = 5, preemptionLevels = 2, patience } = options
  const level = ({ promptTokens, generatedTokens }: SequenceView): number => {
    const service = promptTokens + generatedTokens
    return Math.min(levels - 1, Math.floor(Math.log2(1 + service / quantum)))
  }
  const heap = new WaitingHeap(level)
  const order: Order = {
    name: 'mlfq',
    options: { quantum, levels, preemptionLevels },
    next: (state) => heap.inOrder(state),
    preempt(state) {
      if (preemptionLevels === null) return []
      return findVictims(state, heap.inOrder(state), (request, victim) => {
        return level(victim) >= level(request) + preemptionLevels
      })
    },
    observe: (event) => heap.observe(event),
  }
  return boundedOvertaking(order, patience)
}
