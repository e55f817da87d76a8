import type { Clock } from '../contracts/clock.js'
import type { RequestReport, TimelineEntry } from '../contracts/request-report.js'
import type {
  Plan,
  RequestState,
  SchedulerEvent,
  SchedulerState,
} from '../contracts/scheduler-policy.js'
import type { CllmError } from '../errors/cllm-error.js'
import { type Counters, endState } from './counters.js'
import type { RunningSet } from './running-set.js'
import type { StepPart } from './run-step.js'
import type { Sequence } from './sequence.js'
import { Timeline } from './timeline.js'
import { Wait } from './wait.js'
import { type CommonReason, WaitTimes } from './wait-times.js'

/** What a policy is told of one request. */
export type RequestChange = Exclude<SchedulerEvent, { readonly type: 'step' }> & {
  readonly request: Sequence
}

interface Entry {
  readonly sequence: Sequence
  readonly timeline: Timeline
}

/** Requests that ended and can still be asked about. */
const mostEnded = 1000

/**
 * Writes down what happens to every request and why it waits: O(running) a step, nothing for a decoded
 * token, at most 64 entries a request.
 */
export class Journal {
  readonly #live = new Map<string, Entry>()
  /** By their end. */
  readonly #ended = new Map<string, RequestReport>()
  readonly #waits = new WaitTimes()
  /** Told of each request that begins to wait for the first time. */
  onQueued: (sequence: Sequence) => void = () => {}
  #steps = 0

  constructor(
    private readonly clock: Clock,
    readonly counters: Counters,
  ) {}

  /** A request that is under way or was one of the last 1,000 that ended. */
  find(id: string): RequestReport | undefined {
    const entry = this.#live.get(id)
    if (entry === undefined) return this.#ended.get(id)
    return this.#report(entry, entry.sequence.state, this.clock.now())
  }

  /** A request moved on. */
  changed({ type, request, now }: RequestChange): void {
    if (type === 'finished') return
    if (type === 'queued') this.onQueued(request)
    const timeline = this.#timelineOf(request)
    if (type === 'admitted') {
      timeline.waited(now)
      timeline.admitted(request.slot ?? -1, request.computedTokens, this.#steps, now)
      this.#waits.admitted(request.arrival, request.deadline, now)
    } else if (type === 'preempted') {
      timeline.preempted(now)
      timeline.wait = new Wait(this.#waits, request, now)
    }
  }

  /** A waiting request is held back for a prefix that another one computes. */
  held(sequence: Sequence): void {
    this.#timelineOf(sequence).wait?.hold(this.clock.now())
  }

  /** It is held back no more. */
  letGo(sequence: Sequence): void {
    this.#live.get(sequence.id)?.timeline.wait?.letGo(this.clock.now())
  }

  /** A plan was made: those who still wait do so because of it. */
  planned(
    { admit, preempt, reject, run }: Plan,
    { waiting, freeSlots, now }: Omit<SchedulerState, 'running'>,
    running: RunningSet,
  ): void {
    const isPrefill = ({ id }: { readonly id: string }) => running.get(id)?.state !== 'decoding'
    let reason: CommonReason = 'policy'
    const stay = waiting.size + preempt.length - admit.length - reject.length
    if (stay <= 0) reason = 'step'
    else if (freeSlots + preempt.length <= admit.length) reason = 'slots'
    else if (run.some(isPrefill)) reason = 'budget'
    this.#waits.turn(reason, now)
  }

  /** A step was computed. */
  stepped(parts: readonly StepPart[], startedAt: number, now: number): void {
    this.#steps++
    for (const { sequence, tokens, isDecode } of parts) {
      if (!isDecode) sequence.prefillChunks++
      this.#live.get(sequence.id)?.timeline.ran(this.#steps, isDecode ? 0 : tokens, startedAt, now)
    }
  }

  /** A request was told its last event. */
  ended(sequence: Sequence, now: number, error?: CllmError): void {
    const state = endState(error)
    this.counters.countRequest(state, sequence.usage(), sequence.preemptions)
    const entry = this.#live.get(sequence.id)
    if (entry?.sequence !== sequence) return
    this.#live.delete(sequence.id)
    const end: TimelineEntry = {
      type: 'end',
      atMs: now - sequence.arrival,
      reason: error?.code ?? sequence.finish ?? 'stop',
      ...(error === undefined ? {} : { message: error.message }),
    }
    const report = this.#report(entry, state, now, end)
    this.#ended.delete(sequence.id)
    this.#ended.set(sequence.id, report)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > mostEnded && oldest !== undefined) this.#ended.delete(oldest)
  }

  #timelineOf(sequence: Sequence): Timeline {
    const entry = this.#live.get(sequence.id)
    if (entry?.sequence === sequence) return entry.timeline
    const timeline = new Timeline(sequence.arrival)
    timeline.wait = new Wait(this.#waits, sequence, sequence.arrival)
    this.#live.set(sequence.id, { sequence, timeline })
    return timeline
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
      ...(session === undefined ? {} : { session }),
      ...(forecast === undefined ? {} : { forecast }),
      usage: sequence.usage(),
      timings: sequence.timings(now),
      timeline: timeline.list(more),
    }
  }
}
