import type { Batching } from '../batching.js'
import { firstOf, groupStep, oldestArrival } from '../group-step.js'

/** Options of {@link staticBatching}. */
export interface StaticOptions {
  /** Requests of a group; cut to the slots. Default 8. */
  readonly groupSize?: number
  /** Milliseconds that the first one waits for the others, at most. Default 100. */
  readonly waitMs?: number
}

/**
 * Static batching, the baseline: collects a group, computes all its prompts, then decodes until the
 * longest one is done, and only then takes the next group. What every server did before continuous
 * batching.
 */
export function staticBatching({ groupSize = 8, waitMs = 100 }: StaticOptions = {}): Batching {
  return {
    name: 'static',
    options: { groupSize, waitMs },
    inGroups: true,
    plan(state, next) {
      if (state.running.length > 0) return groupStep(state)
      const { now, waiting, freeSlots } = state
      const wakeAt = (oldestArrival(state) ?? now) + waitMs
      const isWhole = waiting.size >= Math.min(groupSize, freeSlots)
      if (!isWhole && now < wakeAt) return { admit: [], run: [], wakeAt }
      return groupStep(state, firstOf(state, next, groupSize))
    },
  }
}
