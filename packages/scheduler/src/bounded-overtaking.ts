import type { BackendLimits, SequenceView, WaitingView } from '@cllm/core'
import { z } from 'zod'
import type { Order } from './order.js'
import { TokenClock } from './token-clock.js'
import { isWaiting } from './waiting-heap.js'

/** Options of every order that lets later requests go first. */
export interface PatienceOptions {
  /**
   * Tokens that may be computed, for anybody, before a request that waits is overdue. Default 16,384:
   * some seconds on a GPU, half a minute on a few cores.
   */
  readonly patience?: number
}

/** The default of {@link PatienceOptions}. */
export const defaultPatience = 16_384

/** How {@link PatienceOptions} are validated. */
export const patienceShape = { patience: z.int().min(0).default(defaultPatience) }

/** Of all tokens, one in so many goes to overdue requests when others are preferred. */
const overdueShare = 8

/**
 * Makes sure that an order starves nobody. A request that waits while `patience` tokens are computed
 * is overdue. The one of them that came first goes before all others, then it is the order's turn
 * until seven times its tokens were spent. So an order keeps seven eighths of the machine whatever
 * the overload, and overtaking is bounded: see {@link overtakingBound}.
 */
export function boundedOvertaking(order: Order, patience: number = defaultPatience): Order {
  const clock = new TokenClock()
  let turnAt = 0
  let favoured: SequenceView | undefined
  let price = 0
  return {
    ...order,
    options: { ...order.options, patience },
    *next(state) {
      favoured = clock.now < turnAt ? undefined : longestWaiting(state.waiting)
      if (favoured !== undefined && clock.age(favoured) < patience) favoured = undefined
      const first = favoured
      if (first !== undefined) {
        const most = first.promptTokens + first.maxTokens
        price = overdueShare * Math.min(most, state.limits.contextSize)
        yield first
      }
      for (const request of order.next(state)) if (request !== first) yield request
    },
    observe(event) {
      if (event.type === 'admitted' && event.request === favoured) turnAt = clock.now + price
      clock.observe(event)
      order.observe?.(event)
    },
  }
}

/**
 * The bound that {@link boundedOvertaking} gives: how many tokens of later requests are computed, at
 * most, before a request is admitted. `ahead` requests waited when it came. It is overdue after
 * `patience` tokens and a step. Then each of those ahead, and itself, is admitted once eight times the
 * tokens of the one before and what the slots held at that time were computed.
 */
export function overtakingBound(
  ahead: number,
  { slots, contextSize, batchSize }: BackendLimits,
  patience: number = defaultPatience,
): number {
  return patience + batchSize + (ahead + 1) * (overdueShare + slots) * contextSize
}

/** The request that came first: preempted ones wait in front, in no order. */
function longestWaiting(waiting: WaitingView): SequenceView | undefined {
  let first: SequenceView | undefined
  for (const request of waiting) {
    if (isWaiting(request) && request.arrival < (first?.arrival ?? Infinity)) first = request
    if (request.state === 'queued') break
  }
  return first
}
