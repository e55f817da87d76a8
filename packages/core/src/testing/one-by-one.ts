import type { SchedulerPolicy } from '../contracts/scheduler-policy.js'

/** The plainest policy: computes the oldest request alone, and admits one more where there is room. */
export const oneByOne: SchedulerPolicy = {
  name: 'one-by-one',
  plan({ waiting, running, freeSlots, limits }) {
    const [next] = freeSlots > 0 ? waiting : []
    const [first = next] = running
    const tokens = Math.min(first?.remainingTokens ?? 0, limits.batchSize)
    return {
      admit: next === undefined ? [] : [next.id],
      preempt: [],
      reject: [],
      run: first === undefined ? [] : [{ id: first.id, tokens }],
    }
  },
}
