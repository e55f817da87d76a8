import type { SchedulerState, SequenceView } from '../contracts/scheduling/scheduler-policy.js'

/** What a batching sees of a state when only one step group may run. */
export interface GroupView {
  readonly state: SchedulerState
  readonly next: Iterable<SequenceView>
  /** The group of the step; without running requests that of the first one admitted. */
  readonly group: string | undefined
}

/**
 * Narrows a state to one step group: running groups take turns, and a waiting request of another
 * group is not overtaken, so that the running ones end and it is served.
 *
 * @param last - the group of the step before
 */
export function oneStepGroup(
  state: SchedulerState,
  next: Iterable<SequenceView>,
  last: string | undefined,
): GroupView {
  const groups = [...new Set(state.running.map((request) => request.stepGroup))]
  const group = groups[(groups.indexOf(last) + 1) % groups.length]
  const isFree = groups.length === 0
  if (groups.length < 2) return { state, next: sameGroup(next, group, isFree), group }
  const running = state.running.filter((request) => request.stepGroup === group)
  return { state: { ...state, running }, next: sameGroup(next, group, isFree), group }
}

function* sameGroup(
  next: Iterable<SequenceView>,
  group: string | undefined,
  isFree: boolean,
): Iterable<SequenceView> {
  let wanted = group
  let isOpen = isFree
  for (const request of next) {
    if (isOpen) wanted = request.stepGroup
    isOpen = false
    if (request.stepGroup !== wanted) return
    yield request
  }
}
