import type { ArrivalView, SequenceView, SchedulerEvent } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { largest } from '../kit/find-victims.js'
import { WaitingHeap } from '../kit/waiting-heap.js'

/**
 * Earliest deadline first; requests without one come after, by arrival. A request whose first token
 * cannot come in time, even at the best speed seen lately, is refused before it costs anything.
 * Overtaking is bounded by {@link overtakingBound}.
 */
export const edf = defineBoundedOrder({
  name: 'edf',
  doc: 'Earliest deadline first; requests without a deadline come after. For deadlines, goodput.',
  options: {
    refuse: z
      .boolean()
      .default(true)
      .describe(
        'Whether a request that cannot make its deadline, even at the best prefill speed seen lately, is refused with `rejected`.',
      ),
  },
  create({ refuse }) {
    const speed = new PrefillSpeed()
    // The largest number instead of Infinity: ranks are subtracted.
    const rank = ({ deadline = Number.MAX_VALUE }: ArrivalView): number => deadline
    const heap = new WaitingHeap(rank)

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

    return {
      next: (state) => heap.next(state),
      reject(state) {
        const refused: { id: string; reason: string }[] = []
        if (!refuse) return refused
        let inTime = 0
        for (const request of heap.next(state)) {
          const reason = whyLate(request, state.now)
          if (reason !== undefined) refused.push({ id: request.id, reason })
          else if (++inTime > state.freeSlots || request.deadline === undefined) break
        }
        return refused
      },
      arrivalRank: rank,
      victim: ({ running }) => largest(running, ({ deadline = Infinity }) => deadline),
      observe(event) {
        speed.observe(event)
        heap.observe(event)
      },
    }
  },
})

/** Steps with fewer prompt tokens are ignored: their time is mostly the fixed cost of a step. */
const fewestTokens = 8
/** How fast an old record fades with each step of prompts. */
const fading = 1.02

/** The best prefill speed seen lately, as a lower bound for the time of a prompt. */
export class PrefillSpeed {
  #msPerToken = 0

  /** Milliseconds that this many tokens take at least; 0 before the first step with a prompt. */
  leastMs(tokens: number): number {
    return this.#msPerToken * tokens
  }

  /** Learns from a step. */
  observe(event: SchedulerEvent): void {
    if (event.type !== 'step' || event.prefillTokens < fewestTokens) return
    const seen = event.durationMs / event.prefillTokens
    this.#msPerToken = this.#msPerToken === 0 ? seen : Math.min(seen, this.#msPerToken * fading)
  }
}
