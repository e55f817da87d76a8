import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { WorkRanking } from '../work-ranking.js'

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
  const ranking = new WorkRanking(({ tokens, cameAt }, now) => tokens - aging * (now - cameAt))
  const order: Order = {
    name: 'sjf',
    options: { aging },
    next: (state) => ranking.inOrder(state),
    observe: (event) => ranking.observe(event),
  }
  return boundedOvertaking(order, patience)
}
