import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { ranked } from '../ranked.js'
import { TokenClock } from '../token-clock.js'
import { UncachedWork } from '../uncached-work.js'

/** Options of {@link sjf}. */
export interface SjfOptions extends PatienceOptions {
  /** Tokens of work that are outweighed by one token computed while waiting. Default 0.05. */
  readonly aging?: number
}

/**
 * Shortest job first: the least prompt work that no slot holds, equals by arrival; waiting makes a job
 * shorter. Overtaking is bounded by {@link overtakingBound}.
 */
export function sjf({ aging = 0.05, patience }: SjfOptions = {}): Order {
  const clock = new TokenClock()
  const work = new UncachedWork()
  const order: Order = {
    name: 'sjf',
    options: { aging },
    next: ({ waiting }) =>
      ranked(work.estimates(waiting), (request, tokens) => {
        return tokens - aging * clock.age(request)
      }),
    observe: (event) => clock.observe(event),
  }
  return boundedOvertaking(order, patience)
}
