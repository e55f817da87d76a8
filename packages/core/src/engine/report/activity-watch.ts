import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/services.js'
import type {
  ActivityFrame,
  ActivitySpan,
  EngineActivity,
  WaitingActivity,
} from '../../contracts/engine/engine-statistics.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import { defined } from '../../defined.js'
import * as tokens from '../../tokens.js'
import * as parts from '../engine-parts.js'
import { EncodeLane } from '../input/encode-lane.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { RunningSet, WaitingQueue } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import { OpenFrame } from './activity-frame.js'
import { EngineObservers } from './engine-observers.js'
import { RequestTracker } from './engine-report.js'

/** Frames that are kept for readers that poll a little late. */
const mostFrames = 20
/** The most waiting requests that are listed. */
const mostWaiting = 32
/** Milliseconds without a call of `look` after which recording ends. */
const patienceMs = 5000

type Open = { -readonly [Key in keyof ActivitySpan]: ActivitySpan[Key] }

/** The engine's `ActivityWatch`: records what requests do, for a live view. */
export const ACTIVITY = tokens.token<ActivityWatch>('Activity')

/**
 * Records what every request does while it is polled, in frames that last from one poll to the next. It observes nothing
 * while nobody polls, and takes O(running) per step otherwise.
 */
@injectable()
export class ActivityWatch implements EngineObserver {
  #stop: (() => void) | undefined
  #askedAt = 0
  #number = 0
  #frame = new OpenFrame(0)
  readonly #frames: ActivityFrame[] = []
  /** The present span of each running request. */
  readonly #open = new Map<string, Open>()
  readonly #preemptedAt = new Map<string, number>()
  readonly #toldFirstToken = new Set<string>()

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(RunningSet) private readonly running: RunningSet,
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(RequestTracker) private readonly tracker: RequestTracker,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(parts.KV_CACHE_MANAGER) private readonly kv: parts.KVCacheManager,
    @inject(parts.WAIT_PREDICTOR) private readonly predictor: parts.WaitPredictor,
    @inject(EncodeLane) private readonly lane: EncodeLane,
  ) {}

  /** Whether it is recording. */
  get isOn(): boolean {
    return this.#stop !== undefined
  }

  /** The frames after the one with this number, and the current state. */
  look(cursor = this.#number): EngineActivity {
    const now = this.clock.now()
    this.#askedAt = now
    if (this.isOn) this.#closeFrame(now)
    else this.#start(now)
    const frames = this.#frames.filter(({ number }) => number > cursor)
    return {
      now,
      cursor: this.#number,
      // A cursor from before a restart of the engine is ahead of it.
      lost: Math.max(0, this.#number - cursor - frames.length),
      policy: this.policy.policy.name,
      slots: this.kv.statistics(),
      slotTokens: this.backend.limits.contextSize,
      ...defined({ kvPool: this.kv.pool(), cache: this.kv.cache() }),
      waiting: this.waiting.total + this.lane.requests().length,
      queue: this.#queue(now),
      frames,
    }
  }

  onAdmitted({ id, arrival }: Sequence, now: number): void {
    const atMs = this.#preemptedAt.get(id) ?? arrival
    this.#preemptedAt.delete(id)
    this.#frame.addSpan({ id, kind: 'wait', atMs, untilMs: now, tokens: 0 })
  }

  onPreempted({ id }: Sequence, now: number): void {
    this.#preemptedAt.set(id, now)
    this.#end(id)
  }

  onFinished({ id }: Sequence): void {
    this.#preemptedAt.delete(id)
    this.#end(id)
  }

  onStep(step: StepRecord): void {
    const { parts, startedAt, endedAt } = step
    if (endedAt - this.#askedAt > patienceMs) return this.#rest()
    this.#frame.onStep(step)
    for (const { request, tokens: computed, isDecode } of parts) {
      const sequence = request as Sequence
      this.#extend(sequence, isDecode ? 'decode' : 'prefill', startedAt, endedAt, computed)
      this.#frame.addTokens(sequence.tenant, computed)
      if (!isDecode) continue
      this.#tellFirstToken(sequence)
      if (sequence.lastTokenAt !== undefined) this.#frame.addPause(endedAt - sequence.lastTokenAt)
    }
    if (this.running.size === parts.length) return
    const computed = new Set(parts.map(({ request }) => request.id))
    for (const sequence of this.running.values()) {
      if (!computed.has(sequence.id)) this.#extend(sequence, 'pause', startedAt, endedAt, 0)
    }
  }

  onEnded(sequence: Sequence, { state, usage, timings: { queueMs } }: RequestEnd): void {
    const { id, tenant, origin: cache } = sequence
    this.#tellFirstToken(sequence)
    this.#toldFirstToken.delete(id)
    this.#frame.addEnd({ id, tenant, state, ...usage, ...defined({ cache }), queueMs })
  }

  #start(now: number): void {
    this.#frame = new OpenFrame(now)
    this.#stop = this.observers.add(this)
    // First tokens from before the recording are not reported.
    for (const { id, firstTokenAt } of this.running.values()) {
      if (firstTokenAt !== undefined) this.#toldFirstToken.add(id)
    }
  }

  /** Ends the recording. */
  #rest(): void {
    this.#stop?.()
    this.#stop = undefined
    this.#frames.length = 0
    for (const each of [this.#open, this.#preemptedAt, this.#toldFirstToken]) each.clear()
  }

  #closeFrame(now: number): void {
    for (const span of this.#open.values()) {
      if (isWorthTelling(span)) this.#frame.addSpan({ ...span })
      span.atMs = span.untilMs
      span.tokens = 0
    }
    if (!this.#frame.isEmpty) this.#frames.push(this.#frame.close(++this.#number, now))
    if (this.#frames.length > mostFrames) this.#frames.shift()
    this.#frame = new OpenFrame(now)
  }

  #extend(
    { id, slot = -1 }: Sequence,
    kind: ActivitySpan['kind'],
    atMs: number,
    untilMs: number,
    computed: number,
  ): void {
    const open = this.#open.get(id)
    if (open?.kind === kind) {
      open.untilMs = untilMs
      open.tokens += computed
      return
    }
    this.#end(id)
    this.#open.set(id, { id, slot, kind, atMs: open?.untilMs ?? atMs, untilMs, tokens: computed })
  }

  #end(id: string): void {
    const open = this.#open.get(id)
    if (open === undefined) return
    this.#open.delete(id)
    if (isWorthTelling(open)) this.#frame.addSpan(open)
  }

  #tellFirstToken({ id, firstTokenAt, arrival }: Sequence): void {
    if (firstTokenAt === undefined || this.#toldFirstToken.has(id)) return
    this.#toldFirstToken.add(id)
    this.#frame.addFirstToken(firstTokenAt - arrival)
  }

  #queue(now: number): WaitingActivity[] {
    const queue: WaitingActivity[] = []
    for (const sequence of this.waiting.all()) {
      if (queue.length >= mostWaiting) break
      const { id, tenant, priority, state, arrival, promptTokens, forecast } = sequence
      const more = defined({ predictedMs: forecast?.firstTokenMs })
      const slotInMs = this.predictor.waitMs(queue.length, now)
      const reasons = this.tracker.reasonsOf(id, now)
      const known = { id, tenant, priority, state, arrival, promptTokens }
      queue.push({ ...known, ...more, slotInMs, reasons })
    }
    const encodeMs = this.lane.waitMs()
    for (const owner of this.lane.requests()) {
      if (queue.length >= mostWaiting) break
      const { id, tenant, priority, arrival } = owner
      const known = { id, tenant, priority, arrival, state: 'encoding', promptTokens: 0 } as const
      const slotInMs = encodeMs + this.predictor.waitMs(queue.length, now)
      queue.push({ ...known, slotInMs, reasons: this.lane.waited(owner) })
    }
    return queue
  }
}

const isWorthTelling = ({ atMs, untilMs, tokens }: ActivitySpan): boolean =>
  untilMs > atMs || tokens > 0
