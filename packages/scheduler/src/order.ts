import type { SchedulerEvent, SchedulerState, SequenceView } from '@cllm/core'

/** Which waiting request is next: one of the two parts of a built-in policy. */
export interface Order {
  /** The second half of a policy's name, such as `fcfs`. */
  readonly name: string
  /** Its options with their values. */
  readonly options?: Readonly<Record<string, unknown>>
  /**
   * The waiting requests, the next one first. Read lazily: what ranks or sorts does so when the first
   * one is asked for, so that a plan that admits nothing costs nothing here.
   */
  next(state: SchedulerState): Iterable<SequenceView>
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
}
