import type { Batching } from '../batching.js'
import { firstOf, groupStep, oldestArrival } from '../group-step.js'

/** Options of {@link window}. */
export interface WindowOptions {
  /** Milliseconds that a request waits for others, at most. Default 50. */
  readonly windowMs?: number
  /** So many waiting requests are enough; cut to the free slots. Default 8. */
  readonly minRequests?: number
  /** A group takes in new requests when less than this share of it still runs. Default 0.5. */
  readonly regroupBelow?: number
}

/**
 * A dynamic batching window, the way of the original cLLM and of Triton's batcher: requests wait up
 * to 50 ms or until there are 8, run as a group, prompts first, and a group that has shrunk to less
 * than half takes in the next ones.
 */
export function window(options: WindowOptions = {}): Batching {
  const { windowMs = 50, minRequests = 8, regroupBelow = 0.5 } = options
  /** How many ran when the group was formed. */
  let formed = 0
  return {
    name: 'window',
    options: { windowMs, minRequests, regroupBelow },
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
}
