import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { EngineCapabilities, EngineInfo } from '../../contracts/engine/engine-client.js'
import type { EngineStatistics } from '../../contracts/engine/engine-statistics.js'
import type {
  RequestReport,
  WaitReason,
  TimelineEntry,
} from '../../contracts/engine/request-report.js'
import { defined, setLatest } from '../../defined.js'
import { AdapterTable } from '../features/adapters.js'
import { WAIT_PREDICTOR, type WaitPredictor } from '../engine-parts.js'
import type { EncodeOwner } from '../input/encode-lane.js'
import { InputContext } from '../input/resolve-request.js'
import { StepPlanner } from '../loop/step-planner.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { Partings } from '../programs/partings.js'
import { RequestTable } from '../requests/request-table.js'
import { Speculator } from '../speculation/speculator.js'
import { Counters } from './counters.js'
import type { Clock } from '../../contracts/services.js'
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
import * as tokens from '../../tokens.js'
import type { Sequence } from '../requests/sequence.js'
import { type CommonReason, Timeline, WaitAttribution } from './timeline.js'

/** The number of ended requests whose reports are kept. */
const mostEnded = 1000

/**
 * Records the history of every request and why it waits: O(running) per step, nothing per decoded token, at most 64
 * entries per request.
 */
@injectable()
export class RequestTracker implements EngineObserver {
  readonly #live = new Map<string, Timeline>()
  /** In the order in which they ended. */
  readonly #ended = new Map<string, RequestReport>()
  readonly #waits = new WaitAttribution()
  #steps = 0

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  /** The report of a request that is in flight or among the last 1,000 that ended. */
  find(id: string): RequestReport | undefined {
    const live = this.#live.get(id)
    if (live === undefined) return this.#ended.get(id)
    const now = this.clock.now()
    const { sequence } = live
    const state = sequence.givesWay ? 'encoding' : sequence.state
    return live.report({ state, ...sequence.account(now) }, now)
  }

  /** Why a waiting request has waited so far, in milliseconds by reason; empty if it does not wait. */
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

  /** Notes why the requests that the plan does not admit go on waiting. */
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
    // The next request with the same id may be queued before this one's last event is published.
    if (timeline?.sequence !== sequence) return
    this.#live.delete(id)
    const { code: reason = finish, message } = ended.error ?? {}
    const more = defined({ message })
    const end: TimelineEntry = { type: 'end', atMs: now - arrival, reason, ...more }
    setLatest(this.#ended, id, timeline.report(ended, now, end), mostEnded)
  }
}

/** Whether the plan runs requests that do not decode yet, so prompts. */
function hasPrefill(run: Plan['run'], running: readonly SequenceView[]): boolean {
  const decoding = new Set<string>()
  for (const { id, state } of running) if (state === 'decoding') decoding.add(id)
  return run.some(({ id }) => !decoding.has(id))
}

/** An engine's report on itself and its requests. */
@injectable()
export class EngineReport {
  constructor(
    @inject(InputContext) private readonly context: InputContext,
    @inject(WAIT_PREDICTOR) private readonly predictor: WaitPredictor,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(AdapterTable) private readonly adapters: AdapterTable,
    @inject(Speculator) private readonly speculator: Speculator,
    @inject(StepPlanner) private readonly planner: StepPlanner,
    @inject(Counters) private readonly counters: Counters,
    @inject(RequestTracker) private readonly tracker: RequestTracker,
    @inject(Partings) private readonly partings: Partings,
  ) {}

  /** Model, limits and capabilities; the model's sampling parameters include the engine's defaults. */
  info(): EngineInfo {
    const { backend, options, tokenizer } = this.context
    const { model: own, limits } = backend
    const sampling = { ...own.sampling, ...options.sampling }
    const model = Object.keys(sampling).length === 0 ? own : { ...own, sampling }
    const { infill } = tokenizer
    const { draftModel } = this.speculator
    const more = defined({ infill, adapters: this.adapters.known, draftModel })
    return { model, limits, capabilities: capabilitiesOf(backend), ...more }
  }

  /** Counters since the start, and the current load. */
  statistics(): EngineStatistics {
    const { clock, lane } = this.context
    return {
      ...this.table.statistics(),
      waitMs: this.predictor.waitMs(this.table.waiting.total, clock.now()),
      policyFaults: this.policy.faults,
      interruptedSteps: this.planner.interruptedSteps,
      partings: this.partings.counts,
      ...defined({ encodes: lane.statistics() }),
      ...this.counters.snapshot(),
    }
  }

  /** The history of a request that is in flight or among the last that ended. */
  explain(id: string): RequestReport | undefined {
    const { lane, clock } = this.context
    const encoding = lane.requests().find((one) => one.id === id)
    if (encoding !== undefined) {
      return reportOfEncoding(encoding, lane.waited(encoding), clock.now())
    }
    const report = this.tracker.find(id)
    return report && { ...report, ...defined({ queuePosition: this.table.waiting.placeOf(id) }) }
  }
}

/** The report of a request whose images and sounds are being encoded, which has no tokens yet. */
function reportOfEncoding(
  { id, arrival, priority, tenant, session, since }: EncodeOwner,
  reasons: Partial<Record<WaitReason, number>>,
  now: number,
): RequestReport {
  const queueMs = now - arrival
  const none = { preemptions: 0, prefillChunks: 0, prefillMs: 0, decodeMs: 0 }
  return {
    id,
    state: 'encoding',
    arrival,
    priority,
    tenant,
    ...defined({ session }),
    usage: { promptTokens: 0, cachedTokens: 0, generatedTokens: 0 },
    timings: { queueMs, firstTokenMs: queueMs, totalMs: queueMs, ...none },
    timeline: [{ type: 'waited', atMs: since - arrival, untilMs: queueMs, reasons }],
  }
}

/** The capabilities, in the order in which clients see them. */
function capabilitiesOf(backend: Backend): EngineCapabilities {
  const { capabilities: own } = backend
  const { generates, drawLogprobs, promptLogprobs, samplers, drafts } = own
  return {
    ...defined({ generates }),
    grammar: backend.checkConstraint !== undefined,
    logprobs: own.logprobs,
    ...defined({ drawLogprobs, promptLogprobs }),
    embeddings: backend.embed !== undefined,
    lora: backend.adapters !== undefined,
    ...defined({ samplers, drafts }),
    contextShift: backend.shift !== undefined,
    gpu: own.gpu,
  }
}
