import { defineBoundedOrder, notNegative } from '../kit/bounded-overtaking.js'
import { WorkRanking } from '../kit/work-ranking.js'

/**
 * Shortest job first: the least prompt work that no slot holds, equals by arrival; waiting makes a job
 * shorter. Overtaking is bounded by {@link overtakingBound}.
 */
export const sjf = defineBoundedOrder({
  name: 'sjf',
  doc: 'Shortest job first: the least prompt work that no slot holds. For a low mean TTFT.',
  options: {
    aging: notNegative
      .default(0.05)
      .describe('Tokens subtracted from the length of a waiting job per token computed meanwhile.'),
  },
  create: ({ aging }) =>
    new WorkRanking(({ tokens, cameAt }, now) => tokens - aging * (now - cameAt)),
})

/**
 * Highest response ratio next: tokens computed while it waits ÷ tokens of its prompt that no slot
 * holds. Short prompts go first, and long ones catch up the longer they wait. Time is counted in
 * tokens, as in SGLang. Overtaking is bounded by {@link overtakingBound}.
 */
export const hrrn = defineBoundedOrder({
  name: 'hrrn',
  doc: 'Highest response ratio next: waiting time ÷ prompt work. For mean TTFT, milder than `sjf`.',
  create: () => new WorkRanking(({ tokens, cameAt }, now) => -(1 + now - cameAt) / tokens),
})
