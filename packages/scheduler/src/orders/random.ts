import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import type { Order } from '../order.js'
import { WaitingHeap } from '../waiting-heap.js'

/** Options of {@link random}. */
export interface RandomOptions extends PatienceOptions {
  /** The same seed and the same load give the same order. Default 1. */
  readonly seed?: number
}

/**
 * By lot, the measure for what any order is worth. Overtaking is bounded by {@link overtakingBound}.
 */
export function random({ seed = 1, patience }: RandomOptions = {}): Order {
  const draw = drawing(seed)
  const heap = new WaitingHeap(draw)
  const order: Order = {
    name: 'random',
    options: { seed },
    next: (state) => heap.inOrder(state),
    observe: (event) => heap.observe(event),
  }
  return boundedOvertaking(order, patience)
}

/** Mulberry32 by Tommy Ettinger (public domain): numbers from 0 to 2³². */
function drawing(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}
