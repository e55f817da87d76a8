import type { SchedulerState, SequenceView } from '@cllm/core'
import { defineBoundedOrder, positive } from '../kit/bounded-overtaking.js'
import { WaitingHeap } from '../kit/waiting-heap.js'

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
 * A request that waits gains a millisecond by each that a slot does not stand idle; all that run, and the
 * program, lose what computing the program's tokens again takes.
 */
function hold({ programs, now, running }: SchedulerState): number {
  let count = 0
  for (const { lossMs, returnRate } of programs?.paused(now) ?? []) {
    if (returnRate * lossMs * (1 + running.length) > 1) count++
  }
  return count
}
