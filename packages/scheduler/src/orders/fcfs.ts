import type { Order } from '../order.js'

/**
 * First come, first served; preempted requests before new ones. Nobody is ever overtaken: the bound
 * is 0 tokens.
 */
export function fcfs(): Order {
  return { name: 'fcfs', next: (state) => state.waiting }
}
