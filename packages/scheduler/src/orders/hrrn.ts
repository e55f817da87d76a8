import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { WorkRanking } from '../work-ranking.js'

/**
 * Highest response ratio next: tokens computed while it waits ÷ tokens of its prompt that no slot
 * holds. Short prompts go first, and long ones catch up the longer they wait. Time is counted in
 * tokens, as in SGLang. Overtaking is bounded by {@link overtakingBound}.
 */
export function hrrn({ patience }: PatienceOptions = {}): Order {
  const ranking = new WorkRanking(({ tokens, cameAt }, now) => -(1 + now - cameAt) / tokens)
  const order: Order = {
    name: 'hrrn',
    next: (state) => ranking.inOrder(state),
    observe: (event) => ranking.observe(event),
  }
  return boundedOvertaking(order, patience)
}
