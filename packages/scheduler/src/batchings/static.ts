import { defineBatching } from '@cllm/core'
import { z } from 'zod'
import { firstOf, groupStep, oldestArrival } from '../kit/group-step.js'

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
    waitMs: z
      .number()
      .min(0)
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
