import { defineBatching, type SchedulerState, type SequenceView, type Step } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/bounded-overtaking.js'
import { StepBuilder } from '../kit/step-builder.js'
import { hasBegun } from '../kit/waiting-heap.js'

/**
 * Static batching, the baseline: collects a group, computes all its prompts, then decodes until the
 * longest one is done, and only then takes the next group. What every server did before continuous
 * batching.
 */
export const staticBatching = defineBatching({
  name: 'static',
  doc: 'A group runs until its longest answer is done, and only then comes the next group. The baseline: what every server did once.',
  options: z.object({
    groupSize: z.int().min(1).default(8).describe('Requests of a group; cut to the slots.'),
    waitMs: notNegative
      .default(100)
      .describe('Milliseconds that the first request waits for the others, at most.'),
  }),
  create: ({ groupSize, waitMs }) => ({
    inGroups: true,
    plan(state, next) {
      if (state.running.length > 0) return groupStep(state)
      const { now, waiting, freeSlots } = state
      const wakeAt = (oldestArrival(state) ?? now) + waitMs
      const isWhole = waiting.size >= Math.min(groupSize, freeSlots)
      if (!isWhole && now < wakeAt) return { admit: [], run: [], wakeAt }
      return groupStep(state, firstOf(state, next, groupSize))
    },
  }),
})

/**
 * A dynamic batching window, the way of the original cLLM and of Triton's batcher: requests wait up
 * to 50 ms or until there are 8, run as a group, prompts first, and a group that has shrunk to less
 * than half takes in the next ones.
 */
export const window = defineBatching({
  name: 'window',
  doc: 'Requests wait for others and run as a group, which takes in new ones when it has shrunk (the original cLLM, Triton). For comparing.',
  options: z.object({
    windowMs: notNegative
      .default(50)
      .describe('Milliseconds that a request waits for others, at most.'),
    minRequests: z
      .int()
      .min(1)
      .default(8)
      .describe('Number of waiting requests that starts a group; capped at the free slots.'),
    regroupBelow: z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe('A group takes in new requests when less than this share of it still runs.'),
  }),
  create({ windowMs, minRequests, regroupBelow }) {
    /** How many ran when the group was formed. */
    let formed = 0
    return {
      inGroups: true,
      plan(state, next) {
        const { now, running, waiting, freeSlots } = state
        if (running.length > 0 && running.length >= regroupBelow * formed) return groupStep(state)
        const wakeAt = (oldestArrival(state) ?? now) + windowMs
        const isReady = waiting.size >= Math.min(minRequests, freeSlots) || now >= wakeAt
        if (!isReady && running.length > 0) return groupStep(state)
        if (!isReady) return { admit: [], run: [], wakeAt }
        const admitted = firstOf(state, next, freeSlots)
        formed = running.length + admitted.length
        return groupStep(state, admitted)
      },
    }
  },
})

/**
 * A step of a group: its prompts as long as there are any, then a token for each. `admitted` are given
 * a slot now, whether or not there is room for their prompts in this step.
 */
export function groupStep(state: SchedulerState, admitted: readonly SequenceView[] = []): Step {
  const step = new StepBuilder(state)
  for (const request of state.running) {
    if (request.remainingTokens > 1) step.run(request, request.remainingTokens)
  }
  for (const request of admitted) step.admit(request, request.remainingTokens)
  const prompts = step.build()
  if (prompts.run.length > 0) return prompts
  for (const request of state.running) step.run(request, 1)
  return step.build()
}

/** The first `count` requests of `next`, as far as slots are free. */
export function firstOf(
  state: SchedulerState,
  next: Iterable<SequenceView>,
  count: number,
): SequenceView[] {
  const { freeSlots, limits, running } = state
  const most = Math.min(count, freeSlots, limits.batchSize - running.length)
  const first: SequenceView[] = []
  if (most <= 0) return first
  for (const request of next) if (first.push(request) >= most) break
  return first
}

/** When the request that waits longest came, or undefined when none waits. */
export function oldestArrival({ waiting }: SchedulerState): number | undefined {
  let oldest: number | undefined
  for (const request of waiting) {
    oldest = Math.min(oldest ?? request.arrival, request.arrival)
    if (!hasBegun(request)) break
  }
  return oldest
}
