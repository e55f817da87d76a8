import { defineOrder } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { WaitingHeap } from '../kit/waiting-heap.js'

/**
 * First come, first served; requests that have begun (they were preempted, or lost their engine) before new
 * ones. No request is ever overtaken: the bound is 0 tokens.
 */
export const fcfs = defineOrder({
  name: 'fcfs',
  doc: 'First come, first served.',
  create: () => ({ next: (state) => state.waiting }),
})

/**
 * By lot, the measure for what any order is worth. Overtaking is bounded by {@link overtakingBound}.
 */
export const random = defineBoundedOrder({
  name: 'random',
  doc: 'Drawn by lot. For knowing what an order is worth.',
  options: {
    seed: z.int().default(1).describe('The same seed and the same load give the same order.'),
  },
  create: ({ seed }) => new WaitingHeap(randomNumbers(seed)),
})

/** Draws whole numbers from 0 to below 2³² that depend on the seed alone: Mulberry32 by Tommy Ettinger (public domain). */
export function randomNumbers(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
}
