import type { SequenceView } from '@cllm/core'
import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { PrefillSpeed } from '../prefill-speed.js'
import { WaitingHeap } from '../waiting-heap.js'

/** Options of {@link edf}. */
export interface EdfOptions extends PatienceOptions {
  /** Whether requests are refused that cannot make their deadline any more. Default true. */
  readonly refuse?: boolean
}

/**
 * Earliest deadline first; those without one come after, by arrival. A request whose first token
 * cannot come in time, even at the best speed seen lately, is refused before it costs anything.
 * Overtaking is bounded by {@link overtakingBound}.
 */
export function edf({ refuse = true, patience }: EdfOptions = {}): Order {
  const speed = new PrefillSpeed()
  // The largest number instead of Infinity: ranks are subtracted.
  const heap = new WaitingHeap(({ deadline = Number.MAX_VALUE }) => deadline)

  const whyLate = (request: SequenceView, now: number): string | undefined => {
    const { deadline, generatedTokens } = request
    if (deadline === undefined || generatedTokens > 0) return undefined
    const left = deadline - now
    const takes = speed.leastMs(request.remainingTokens)
    if (takes <= left) return undefined
    return left <= 0
      ? `Its first token was due ${Math.round(-left)} ms ago, and it still waits`
      : `Its first token is due in ${Math.round(left)} ms and takes at least ${Math.round(takes)} ms`
  }

  const order: Order = {
    name: 'edf',
    options: { refuse },
    next: (state) => heap.inOrder(state),
    reject(state) {
      const refused: { id: string; reason: string }[] = []
      if (!refuse) return refused
      let inTime = 0
      for (const request of heap.inOrder(state)) {
        const reason = whyLate(request, state.now)
        if (reason !== undefined) refused.push({ id: request.id, reason })
        else if (++inTime > state.freeSlots || request.deadline === undefined) break
      }
      return refused
    },
    observe(event) {
      speed.observe(event)
      heap.observe(event)
    },
  }
  return boundedOvertaking(order, patience)
}
