import type { SchedulerPolicy, SequenceView } from '@cllm/core'

/**
 * The plainest policy that batches, for tests of other parts: all that run, then as many waiting
 * requests in their order as have slots, up to the batch size. A step has the step group of the first
 * of them.
 */
export const firstComeFirstServed: SchedulerPolicy = {
  name: 'first-come-first-served',
  plan({ waiting, running, freeSlots, limits }) {
    const admit: string[] = []
    const run: { id: string; tokens: number }[] = []
    let left = limits.batchSize
    let first: SequenceView | undefined
    const compute = (request: SequenceView): void => {
      first ??= request
      const tokens = Math.min(request.remainingTokens, left)
      if (tokens < 1 || request.stepGroup !== first.stepGroup) return
      run.push({ id: request.id, tokens })
      left -= tokens
    }
    for (const request of running) compute(request)
    if (freeSlots > 0 && left > 0) {
      for (const request of waiting) {
        admit.push(request.id)
        compute(request)
        if (admit.length === freeSlots || left === 0) break
      }
    }
    return { admit, preempt: [], reject: [], run }
  },
}
