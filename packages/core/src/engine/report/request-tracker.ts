import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type {
  RequestReport,
  TimelineEntry,
  WaitReason,
} from '../../contracts/engine/request-report.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import type {
  Plan,
  SchedulerState,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'
import { defined, setLatest } from '../../defined.js'
import * as tokens from '../../tokens.js'
import type { Sequence } from '../requests/sequence.js'
import { type CommonReason, Timeline, WaitAttribution } from './timeline.js'

/** Requests that ended and can still be asked about. */
const mostEnded = 1000

/**
 * Tracks what happens to every request and why it waits: O(running) a step, nothing for a decoded
 * token, at most 64 entries a request.
 */
@injectable()
export class RequestTracker implements EngineObserver {
  readonly #live = new Map<string, Timeline>()
  /** In the order in which they ended. */
  readonly #ended = new Map<string, RequestReport>()
  readonly #waits = new WaitAttribution()
  #steps = 0

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  /** A request that is under way or was one of the last 1,000 that ended. */
  find(id: string): RequestReport | undefined {
    const live = this.#live.get(id)
    if (live === undefined) return this.#ended.get(id)
    const now = this.clock.now()
    const { sequence } = live
    return live.report({ state: sequence.state, ...sequence.account(now) }, now)
  }

  /** Why a waiting request has waited so far, in milliseconds; empty of any other. */
  reasonsOf(id: string, now: number): Readonly<Partial<Record<WaitReason, number>>> {
    return this.#live.get(id)?.reasons(now) ?? {}
  }

  onQueued(sequence: Sequence, now: number): void {
    this.#live.set(sequence.id, new Timeline(sequence, this.#waits, now))
  }

  onAdmitted(sequence: Sequence, now: number): void {
    this.#live.get(sequence.id)?.admitted(this.#steps, now)
    this.#waits.onAdmitted(sequence.arrival, sequence.deadline, now)
  }

  onPreempted(sequence: Sequence, now: number): void {
    this.#live.get(sequence.id)?.preempted(now)
  }

  onHeld(sequence: Sequence, now: number): void {
    this.#live.get(sequence.id)?.hold(now)
  }

  onReleased(sequence: Sequence, now: number): void {
    this.#live.get(sequence.id)?.release(now)
  }

  /** The requests that still wait do so because of this plan. */
  onPlan({ admit, preempt, reject, run }: Plan, state: SchedulerState): void {
    const { waiting, freeSlots, now } = state
    let reason: CommonReason = 'policy'
    const stay = waiting.size + preempt.length - admit.length - reject.length
    if (stay <= 0) reason = 'step'
    else if (freeSlots + preempt.length <= admit.length) {
      reason = state.running.length + freeSlots < state.limits.slots ? 'cells' : 'slots'
    } else if (hasPrefill(run, state.running)) reason = 'budget'
    this.#waits.turn(reason, now)
  }

  onStep({ parts, startedAt, endedAt }: StepRecord): void {
    this.#steps++
    for (const { request, tokens, isDecode } of parts) {
      this.#live.get(request.id)?.ran(this.#steps, isDecode ? 0 : tokens, startedAt, endedAt)
    }
  }

  onEnded(sequence: Sequence, ended: RequestEnd, now: number): void {
    const { id, arrival, finish = 'stop' } = sequence
    const timeline = this.#live.get(id)
    // The next one of its id may be queued before its last event is told of.
    if (timeline?.sequence !== sequence) return
    this.#live.delete(id)
    const { code: reason = finish, message } = ended.error ?? {}
    const more = defined({ message })
    const end: TimelineEntry = { type: 'end', atMs: now - arrival, reason, ...more }
    setLatest(this.#ended, id, timeline.report(ended, now, end), mostEnded)
  }
}

/** Whether a part of a prompt is computed: all that runs and does not decode already. */
function hasPrefill(run: Plan['run'], running: readonly SequenceView[]): boolean {
  const decoding = new Set<string>()
  for (const { id, state } of running) if (state === 'decoding') decoding.add(id)
  return run.some(({ id }) => !decoding.has(id))
}
