import type { SequenceView, SchedulerState } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { positive } from '../kit/options.js'
import { findVictims } from '../kit/find-victims.js'
import { WaitingHeap } from '../kit/ranked-orders.js'

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

/**
 * Programs, such as agents, as wholes: a request whose program's slot still has its tokens first, then the
 * program that was served least, by levels, equals by arrival (the program-level attained service of Autellix, arXiv
 * 2502.13965). While a program's tool runs, its slot waits for it as long as that is worth more than giving it
 * to what waits, by how long its pauses are (after Continuum, arXiv 2511.02230, without its time to live). A
 * request of no program is a program of one. Overtaking is bounded by {@link overtakingBound}.
 */
export const agents = defineBoundedOrder({
  name: 'agents',
  doc: 'Slots wait for programs whose tools run; the least served program is next (Autellix, arXiv 2502.13965; Continuum, arXiv 2511.02230). For agents.',
  options: {
    quantum: positive
      .default(2048)
      .describe(
        'Tokens computed for a program in the first level; each further level is twice as long.',
      ),
  },
  create({ quantum }) {
    const heap = new WaitingHeap(({ program, generatedTokens }: SequenceView) => {
      if (generatedTokens > 0) return -1
      if (program === undefined) return 0
      return program.keptTokens > 0 ? -1 : Math.floor(Math.log2(1 + program.servedTokens / quantum))
    })
    return { next: (state) => heap.next(state), hold, observe: (event) => heap.observe(event) }
  },
})

/**
 * How many slots stay idle for programs that pause. A millisecond of a slot that is given away gains as much for a
 * request that waits, and more where more requests wait than run. It costs all that run, and the program, the time of
 * computing the program's tokens again. That counts twice: the program comes back for a slot that another one waits for.
 */
function hold({ programs, now, running, waiting }: SchedulerState): number {
  const gain = Math.max(1, waiting.size / Math.max(1, running.length))
  let count = 0
  for (const { lossMs, returnRate } of programs?.paused(now) ?? []) {
    if (2 * returnRate * lossMs * (1 + running.length) > gain) count++
  }
  return count
}
