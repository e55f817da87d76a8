import type { SequenceView } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder, positive } from '../kit/bounded-overtaking.js'
import { findVictims } from '../kit/find-victims.js'
import { WaitingHeap } from '../kit/waiting-heap.js'

/**
 * A multi-level feedback queue: the request with the least service first, in levels, equals by
 * arrival. A request starts at the level of its prompt (skip-join) and sinks as it generates; waiting
 * too long lifts it to the top. After FastServe (arXiv 2305.05920). Overtaking is bounded by
 * {@link overtakingBound}.
 */
export const mlfq = defineBoundedOrder({
  name: 'mlfq',
  doc: 'Multi-level feedback queue: least service first, prompt included (FastServe, arXiv 2305.05920). Preempts. For answers of unknown length.',
  options: {
    quantum: positive
      .default(256)
      .describe('Tokens of service in the first level; each further level is twice as long.'),
    levels: z.int().min(2).max(16).default(5).describe('How many levels there are.'),
    preemptionLevels: z
      .int()
      .min(1)
      .nullable()
      .default(2)
      .describe(
        'A running request loses its slot to a waiting one this many levels above it; null: never.',
      ),
  },
  create({ quantum, levels, preemptionLevels }) {
    const level = ({ promptTokens, generatedTokens }: SequenceView): number => {
      const service = promptTokens + generatedTokens
      return Math.min(levels - 1, Math.floor(Math.log2(1 + service / quantum)))
    }
    const heap = new WaitingHeap(level)
    return {
      next: (state) => heap.next(state),
      preempt(state) {
        if (preemptionLevels === null) return []
        return findVictims(state, heap.next(state), (request, victim) => {
          return level(victim) >= level(request) + preemptionLevels
        })
      },
      observe: (event) => heap.observe(event),
    }
  },
})
