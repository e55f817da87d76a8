import { defineOrder, type SequenceView, type WaitingView } from '@cllm/core'
import { z } from 'zod'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { notNegative } from '../kit/options.js'
import { WaitingHeap, cachedTokens, WorkRanking } from '../kit/ranked-orders.js'

/**
 * First come, first served; requests that have begun (preempted ones, and those from another engine) come before new
 * ones. No request is ever overtaken: the bound is 0 tokens.
 */
export const fcfs = defineOrder({
  name: 'fcfs',
  doc: 'First come, first served.',
  create: () => ({ next: (state) => state.waiting }),
})

/**
 * A random order, as a baseline for the others. Overtaking is bounded by {@link overtakingBound}.
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

/** The number of requests that are ranked; the others come after them, in the queue's order. */
const rankedFirst = 128

/**
 * Longest cached prefix first, among the first 128 waiting requests, equal ones by arrival: cached tokens are used before
 * they are overwritten. After SGLang (RadixAttention, arXiv 2312.07104), where requests without a cached prefix can
 * starve; here overtaking is bounded by {@link overtakingBound}.
 */
export const lpm = defineBoundedOrder({
  name: 'lpm',
  doc: 'Longest prefix match: the longest prefix that a slot holds, of the first 128 requests (SGLang, arXiv 2312.07104). For the hit rate.',
  create: () => ({ next: ({ waiting }) => byPrefix(waiting) }),
})

function* byPrefix(waiting: WaitingView): Iterable<SequenceView> {
  const first: { readonly request: SequenceView; readonly cached: number }[] = []
  for (const request of waiting) {
    if (first.push({ request, cached: cachedTokens(request) }) === rankedFirst) break
  }
  first.sort((one, other) => other.cached - one.cached)
  for (const { request } of first) yield request
  let place = 0
  for (const request of waiting) if (place++ >= first.length) yield request
}
