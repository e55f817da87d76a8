import type { Plan, SchedulerEvent, SchedulerState, SequenceView } from '@cllm/core'

/** What a {@link Batching} decides of a plan. */
export type Step = Pick<Plan, 'admit' | 'run' | 'wakeAt'>

/** What a step looks like: one of the two parts of a built-in policy. */
export interface Batching {
  /** The first half of a policy's name, such as `adaptive`. */
  readonly name: string
  /** Its options with their values. */
  readonly options?: Readonly<Record<string, unknown>>
  /**
   * Whether it admits requests in groups and not whenever a slot is free, so that nobody gets a slot
   * earlier by preempting another one. Default false.
   */
  readonly inGroups?: boolean
  /**
   * The next step. `next` is the waiting requests in the order in which they are to be admitted; it
   * is computed lazily, so read no further than what is admitted.
   */
  plan(state: SchedulerState, next: Iterable<SequenceView>): Step
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
}
