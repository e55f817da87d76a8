import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { ranked } from '../ranked.js'
import { TokenClock } from '../token-clock.js'
import { UncachedWork } from '../uncached-work.js'

/**
 * Highest response ratio next: tokens computed while it waits ÷ tokens of its prompt that no slot
 * holds. Short prompts go first, and long ones catch up the longer they wait. Time is counted in
 * tokens, as in SGLang. Overtaking is bounded by {@link overtakingBound}.
 */
export function hrrn({ patience }: PatienceOptions = {}): Order {
  const clock = new TokenClock()
  const work = new UncachedWork()
  const order: Order = {
    name: 'hrrn',
    next: ({ waiting }) =>
      ranked(work.estimates(waiting), (request, tokens) => {
        return -(1 + clock.age(request)) / tokens
      }),
    observe: (event) => clock.observe(event),
  }
  return boundedOvertaking(order, patience)
}
