import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/clock.js'
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
  RequestState,
  SchedulerState,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'
import * as tokens from '../../tokens.js'
import type { Sequence } from '../requests/sequence.js'
import { type CommonReason, Timeline, Wait, WaitAttribution } from './timeline.js'
import { defined } from '../../defined.js'

interface Entry {
  readonly sequence: Sequence
  readonly timeline: Timeline
}

/** Requests that ended and can still be asked about. */
const mostEnded = 1000

/**
 * Tracks what happens to every request and why it waits: O(running) a step, nothing for a decoded
 * token, at most 64 entries a request.
 */
@injectable()
export class RequestTracker implements EngineObserver {
  readonly #live = new Map<string, Entry>()
  /** In the order in which they ended. */
  readonly #ended = new Map<string, RequestReport>()
  readonly #waits = new WaitAttribution()
  #steps = 0

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  /** A request that is under way or was one of the last 1,000 that ended. */
  find(id: string): RequestReport | undefined {
    const entry = this.#live.get(id)
    if (entry === undefined) return this.#ended.get(id)
    return this.#report(entry, entry.sequence.state, this.clock.now())
  }

  /** Why a waiting request has waited so far, in milliseconds; empty of any other. */
  reasonsOf(id: string, now: number): Readonly<Partial<Record<WaitReason, number>>> {
    return this.#live.get(id)?.timeline.wait?.reasons(now) ?? {}
  }

  onQueued(sequence: Sequence, now: number): void {
    const timeline = new Timeline(sequence.arrival)
    timeline.wait = new Wait(this.#waits, sequence, now, sequence.arrival)
    this.#live.set(sequence.id, { sequence, timeline })
  }

  onAdmitted(sequence: Sequence, now: number): void {
    const timeline = this.#timelineOf(sequence)
    timeline?.waited(now)
    timeline?.admitted(sequence, this.#steps, now)
    this.#waits.onAdmitted(sequence.arrival, sequence.deadline, now)
  }

  onPreempted(sequence: Sequence, now: number): void {
    const timeline = this.#timelineOf(sequence)
    timeline?.preempted(now)
    if (timeline !== undefined) timeline.wait = new Wait(this.#waits, sequence, now)
  }

  onHeld(sequence: Sequence, now: number): void {
    this.#timelineOf(sequence)?.wait?.hold(now)
  }

  onReleased(sequence: Sequence, now: number): void {
    this.#timelineOf(sequence)?.wait?.release(now)
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
      const entry = this.#live.get(request.id)
      entry?.timeline.ran(this.#steps, isDecode ? 0 : tokens, startedAt, endedAt)
    }
  }

  onEnded(sequence: Sequence, { state, error }: RequestEnd, now: number): void {
    const entry = this.#live.get(sequence.id)
    if (entry?.sequence !== sequence) return
    this.#live.delete(sequence.id)
    const end: TimelineEntry = {
      type: 'end',
      atMs: now - sequence.arrival,
      reason: error?.code ?? sequence.finish ?? 'stop',
      ...defined({ message: error?.message }),
    }
    const report = this.#report(entry, state, now, end)
    this.#ended.delete(sequence.id)
    this.#ended.set(sequence.id, report)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest)
  }

  #timelineOf(sequence: Sequence): Timeline | undefined {
    const entry = this.#live.get(sequence.id)
    return entry?.sequence === sequence ? entry.timeline : undefined
  }

  #report(
    { sequence, timeline }: Entry,
    state: RequestState,
    now: number,
    end?: TimelineEntry,
  ): RequestReport {
    const { id, arrival, priority, tenant, session, forecast, firstTokenAt } = sequence
    const more: TimelineEntry[] = []
    if (firstTokenAt !== undefined) {
      more.push({ type: 'first_token', atMs: firstTokenAt - arrival })
    }
    const waiting = timeline.waiting(now)
    if (waiting !== undefined) more.push(waiting)
    if (end !== undefined) more.push(end)
    return {
      id,
      state,
      arrival,
      priority,
      tenant,
      ...defined({ session, forecast }),
      usage: sequence.usage(),
      timings: sequence.timings(now),
      timeline: timeline.list(more),
    }
  }
}

/** Whether a part of a prompt is computed: all that runs and does not decode already. */
function hasPrefill(run: Plan['run'], running: readonly SequenceView[]): boolean {
  const decoding = new Set<string>()
  for (const { id, state } of running) if (state === 'decoding') decoding.add(id)
  return run.some(({ id }) => !decoding.has(id))
}
