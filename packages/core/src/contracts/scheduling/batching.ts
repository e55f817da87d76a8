import type { Plan, SchedulerEvent, SchedulerState, SequenceView } from './scheduler-policy.js'

/** What a {@link Batching} decides of a plan. */
export type Step = Pick<Plan, 'admit' | 'run' | 'wakeAt'>

/** What a step computes: one of the two halves of a policy. */
export interface Batching {
  /**
   * Whether it admits requests in groups and not whenever a slot is free, so that preempting another
   * request would not give any request a slot earlier. Default false.
   */
  readonly inGroups?: boolean
  /**
   * The next step. `next` is the waiting requests in the order in which they are to be admitted; it
   * is computed lazily, so read at most one request more than is admitted.
   */
  plan(state: SchedulerState, next: Iterable<SequenceView>): Step
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
}
