import { defineBoundedOrder, positive } from '../kit/bounded-overtaking.js'
import { TokenClock } from '../kit/token-clock.js'
import { findVictims, largest } from '../kit/find-victims.js'
import { WaitingHeap } from '../kit/waiting-heap.js'

/**
 * The highest `priority` first, equals by arrival. Priorities grow with waiting, and a request that is
 * urgent enough takes the slot of the least that runs. After vLLM and SGLang, both without aging.
 * Overtaking is bounded by {@link overtakingBound}.
 */
export const priority = defineBoundedOrder({
  name: 'priority',
  doc: 'The highest `priority` first; it grows with waiting. Preempts. For classes of requests.',
  options: {
    agingTokens: positive
      .default(4096)
      .describe('Tokens computed, of all requests, that raise a waiting one by one priority.'),
    preemptionThreshold: positive
      .nullable()
      .default(10)
      .describe(
        'A running request loses its slot to a waiting one whose priority is higher by this much; null: never.',
      ),
  },
  create({ agingTokens, preemptionThreshold }) {
    const clock = new TokenClock()
    // All waiting requests age alike, so ranks do not change while they wait.
    const heap = new WaitingHeap(
      (request) => clock.cameAt(request) / agingTokens - request.priority,
    )
    return {
      next: (state) => heap.next(state),
      preempt(state) {
        if (preemptionThreshold === null) return []
        return findVictims(state, heap.next(state), (request, victim) => {
          return request.priority >= victim.priority + preemptionThreshold
        })
      },
      arrivalRank: ({ priority }) => -priority,
      victim: ({ running }) => largest(running, ({ priority }) => -priority),
      observe(event) {
        clock.observe(event)
        heap.observe(event)
      },
    }
  },
})
