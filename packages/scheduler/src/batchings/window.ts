import { defineBatching } from '@cllm/core'
import { z } from 'zod'
import { firstOf, groupStep, oldestArrival } from '../kit/group-step.js'

/**
 * A dynamic batching window, the way of the original cLLM and of Triton's batcher: requests wait up
 * to 50 ms or until there are 8, run as a group, prompts first, and a group that has shrunk to less
 * than half takes in the next ones.
 */
export const window = defineBatching({
  name: 'window',
  doc: 'Requests wait for others and run as a group, which takes in new ones when it has shrunk (the original cLLM, Triton). For comparing.',
  options: z.object({
    windowMs: z
      .number()
      .min(0)
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
