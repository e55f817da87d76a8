import type { SchedulerState, SequenceView, Step } from '@cllm/core'
import { StepBuilder } from './step-builder.js'
import { hasBegun } from './waiting-heap.js'

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
