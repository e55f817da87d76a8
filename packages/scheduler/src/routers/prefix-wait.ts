import { type WorkerView, defineRouter } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/bounded-overtaking.js'
import { leastBy, nearlyLeastBy } from './choose.js'

/**
 * The earliest first token, as each worker's own costs predict it: its wait, and the part of the
 * prompt that it does not hold; and what this prompt costs the requests beside it. The worker that holds
 * the most wins while that comes within the bound, as the prompt stays there for the next turn; but only
 * by what is its own: what many prompts begin with is no reason.
 */
export const prefixWait = defineRouter({
  name: 'prefix-wait',
  doc: 'The earliest first token, predicted from the wait and from the part of the prompt that the worker does not hold; the worker that holds the most wins within a bound.',
  options: z.object({
    slack: notNegative
      .default(0.25)
      .describe('How much later, as a share, the first token may be where most is held.'),
    steps: notNegative.default(1).describe('The same in steps of the worker, added to it.'),
    beside: notNegative
      .default(0.25)
      .describe('What the time of its prompt costs each request beside it, as a share of it.'),
  }),
  create: ({ beside, slack, steps }) => ({
    place(request, workers) {
      const costOf = (worker: WorkerView): number => {
        const { firstTokenMs, waitMs, open } = worker
        return firstTokenMs + beside * open * (firstTokenMs - waitMs)
      }
      const earliest = nearlyLeastBy(request.id, workers, costOf)
      if (ownTokens(workers) <= request.promptTokens / 8) return { worker: earliest.id }
      const most = leastBy(workers, ({ cachedTokens }) => -cachedTokens)
      const bound = (1 + slack) * costOf(earliest) + steps * most.stepMs
      return { worker: (costOf(most) <= bound ? most : earliest).id }
    },
  }),
})

/**
 * What the worker that holds the most has for itself: what three workers hold is of no one conversation, but what
 * many prompts begin with.
 */
function ownTokens(workers: readonly WorkerView[]): number {
  let [first, second, third] = [0, 0, 0]
  for (const { cachedTokens } of workers) {
    if (cachedTokens <= third) continue
    if (cachedTokens > first) [first, second, third] = [cachedTokens, first, second]
    else if (cachedTokens > second) [second, third] = [cachedTokens, second]
    else third = cachedTokens
  }
  return first - third
}
