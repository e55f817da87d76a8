import type { Learner } from '../learned.js'
import type {
  ArrivalView,
  Plan,
  SchedulerEvent,
  SchedulerState,
  SequenceView,
  TenantService,
} from './scheduler-policy.js'

/** What a {@link Batching} decides of a plan. */
export type Step = Pick<Plan, 'admit' | 'run' | 'wakeAt'>

/** What a step computes: one of the two halves of a policy. */
export interface Batching extends Learner {
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

/** Which waiting request is next: one of the two halves of a policy. */
export interface Order {
  /**
   * All waiting requests, the next one first. Read lazily: an order that ranks or sorts does so when
   * the first request is asked for, so that a plan that admits nothing costs nothing here.
   */
  next(state: SchedulerState): Iterable<SequenceView>
  /**
   * Waiting requests that are refused now, with a reason for the client. Called for every plan, so it
   * must not look at all that wait.
   */
  reject?(state: SchedulerState): Plan['reject']
  /**
   * Running requests that lose their slot to more urgent ones. Called when no slot is free and the
   * batching admits at any time; must not look at all that wait. A preempted request is computed
   * again from its tokens, so name only what is worth it.
   */
  preempt?(state: SchedulerState): readonly SequenceView[]
  /**
   * The running request that gives its slot back when the KV cells that all share are used up. Default:
   * the one that was admitted last.
   */
  victim?(state: SchedulerState): SequenceView | undefined
  /**
   * How many of the free slots are kept for requests that have not come yet, as their programs pause. Asked
   * where requests wait and others run.
   */
  hold?(state: SchedulerState): number
  /** See `SchedulerPolicy`. */
  arrivalRank?(request: ArrivalView): number
  /** Learns from what happened. */
  observe?(event: SchedulerEvent): void
  /** See `SchedulerPolicy`. */
  onServedElsewhere?(services: readonly TenantService[]): void
}
