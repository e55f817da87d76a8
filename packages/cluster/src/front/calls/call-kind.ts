import type { ToEngine } from '@cllm/host'
import type { Member, Members } from '../members.js'
import type { Placing } from '../placing/placing.js'
import type { ActivityCursors } from './merge-activity.js'
import type { LastStatistics } from './last-statistics.js'

/** A call of a client. */
export type CallMessage = ToEngine & { readonly type: 'call' }

/** What calls are planned and answered with. */
export interface CallContext {
  readonly members: Members
  readonly placing: Placing
  readonly statistics: LastStatistics
  readonly cursors: ActivityCursors
  /** Messages that the front has refused so far. */
  readonly refusedMessages: () => number
}

/** Who gets a call, and what becomes of the answers. */
export interface CallPlan {
  readonly to: readonly Member[]
  /** What a worker gets; default: the call as it is. */
  readonly messageTo?: (member: Member) => CallMessage
  /** The client's answer, from those of the workers by their names, in the order in which they came. */
  readonly merge: (answers: ReadonlyMap<string, unknown>) => unknown
}

/** What becomes of the calls of a name. */
export interface CallKind {
  /** Throws where it cannot be made, `engine_unavailable` where there is no worker for it. */
  readonly plan: (message: CallMessage, context: CallContext) => CallPlan
  /** Any worker's answer is the same: it can wait for one, and is made again where one is lost. */
  readonly isPatient?: boolean
  /** Its answer names requests, by the ids that they have at the worker. */
  readonly tellsIds?: boolean
  /**
   * The answer does without a worker that cannot give any: one whose engine stands still must not take the others out of
   * the service. Milliseconds from the call on, after which one answer is enough; default: it needs all of them.
   */
  readonly partialMs?: number
  /** A worker answered. */
  readonly onAnswer?: (worker: string, value: unknown, context: CallContext) => void
}
