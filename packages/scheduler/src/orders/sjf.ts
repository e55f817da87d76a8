import { defineOrder } from '@cllm/core'
import { z } from 'zod'
import { boundedOvertaking, patienceOption } from '../kit/bounded-overtaking.js'
import { WorkRanking } from '../kit/work-ranking.js'

/**
 * Shortest job first: the least prompt work that no slot holds, equals by arrival; waiting makes a job
 * shorter. Overtaking is bounded by {@link overtakingBound}.
 */
export const sjf = defineOrder({
  name: 'sjf',
  doc: 'Shortest job first: the least prompt work that no slot holds. For a low mean TTFT.',
  options: z.object({
    aging: z
      .number()
      .min(0)
      .default(0.05)
      .describe('Tokens by which a job counts as shorter for each token computed while it waits.'),
    ...patienceOption,
  }),
  create: ({ aging, patience }) =>
    boundedOvertaking(
      new WorkRanking(({ tokens, cameAt }, now) => tokens - aging * (now - cameAt)),
      patience,
    ),
})
