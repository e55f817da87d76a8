import type { ArrivalView, SequenceView, SchedulerEvent } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { positive } from '../kit/options.js'
import { TokenClock, WaitingHeap } from '../kit/ranked-orders.js'
import { findVictims, largest } from '../kit/find-victims.js'

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
/** The factor by which an old record fades with each step that computes prompts. */
const fading = 1.02
/** The record only holds for prompts up to this many times the longest recent step, as longer steps may be faster. */
const mostTimes = 8

/** The best prefill speed seen lately, as a lower bound for the time of a prompt. */
export class PrefillSpeed {
  #msPerToken = 0
  /** The most prompt tokens of a step lately. */
  #mostTokens = 0

  /** Milliseconds that this many tokens take at least; 0 before the first step with a prompt. */
  leastMs(tokens: number): number {
    return this.#msPerToken * Math.min(tokens, mostTimes * this.#mostTokens)
  }

  /** Learns from a step. */
  observe(event: SchedulerEvent): void {
    if (event.type !== 'step' || event.prefillTokens < fewestTokens) return
    this.#mostTokens = Math.max(event.prefillTokens, this.#mostTokens / fading)
    const seen = event.durationMs / event.prefillTokens
    this.#msPerToken = this.#msPerToken === 0 ? seen : Math.min(seen, this.#msPerToken * fading)
  }
}
