import { defineRouter } from '@cllm/core/portable'
import { z } from 'zod'
import { isWithin, leastBy } from './choose.js'

/**
 * The earliest first token, as each worker's own costs predict it: its wait, and the part of the
 * prompt that it does not hold. The worker that holds the most wins while its first token comes
 * within the bound, as the prompt stays there for the next turn; but only with more than a block
 * beyond what the earliest worker holds: what every prompt begins with is no reason.
 */
export const prefixWait = defineRouter({
  name: 'prefix-wait',
  doc: 'The earliest first token, predicted from the wait and from the part of the prompt that the worker does not hold; the worker that holds the most wins within a bound.',
  options: z.object({
    slack: z
      .number()
      .min(0)
      .default(0.25)
      .describe('How much later, as a share, the first token may be where most is held.'),
    steps: z.number().min(0).default(1).describe('The same in steps of the worker, added to it.'),
  }),
  create: (bound) => ({
    place(request, workers) {
      const earliest = leastBy(workers, ({ firstTokenMs }) => firstTokenMs)
      const most = leastBy(workers, ({ cachedTokens }) => -cachedTokens)
      const gain = most.cachedTokens - earliest.cachedTokens
      const isReason = gain > request.promptTokens / 8
      const holds = isReason && isWithin(bound, most, earliest.firstTokenMs)
      return { worker: (holds ? most : earliest).id }
    },
  }),
})
