import { inject, injectable } from 'tsyringe'
import type { EngineObserver, StepRecord } from '../../contracts/engine/engine-observer.js'
import type { Logger } from '../../contracts/services.js'
import type {
  FallbackInfo,
  ArrivalView,
  Plan,
  SchedulerEvent,
  SchedulerPolicy,
  SchedulerState,
  SequenceView,
  TenantService,
} from '../../contracts/scheduling/scheduler-policy.js'
import { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import { checkPlan } from './check-plan.js'
import type { RunningSet, WaitingQueue } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import { defined } from '../../defined.js'
import { synchronous } from '../../policy/compose-policy.js'

/** The policy that takes over from one that fails. */
export interface FallbackPolicy {
  /** Makes it; without it, a failing policy fails all waiting and running requests. */
  readonly create?: () => SchedulerPolicy
}

/** The {@link FallbackPolicy}. */
export const FALLBACK_POLICY = tokens.token<FallbackPolicy>('FallbackPolicy')

/** The active policy. */
export interface PolicyInForce {
  readonly policy: SchedulerPolicy
  /** Why it took over, while it is the fallback. */
  readonly fallback: FallbackInfo | undefined
}

/**
 * Runs the active policy: validates its plans, passes it events, and switches to the fallback policy
 * when it fails.
 */
@injectable()
export class PolicyRunner implements PolicyInForce, EngineObserver {
  /** Why the fallback took over, while it is active. */
  fallback: FallbackInfo | undefined
  /** Number of policies replaced so far. */
  faults = 0
  /** What the policy did wrong since its last plan. */
  #fault: CllmError | undefined
  /** Since when requests have waited while none ran, and how long they did before they were all gone. */
  #waitsSince: number | undefined
  #waitedMs = 0

  constructor(
    @inject(tokens.SCHEDULER_POLICY) public policy: SchedulerPolicy,
    @inject(FALLBACK_POLICY) private readonly successor: FallbackPolicy,
    @inject(tokens.LOGGER) private readonly logger: Logger,
    @inject(ENGINE_OPTIONS) private readonly options: EngineOptions,
  ) {}

  /** Switches to another policy and announces every current request to it. */
  replace(
    policy: SchedulerPolicy,
    now: number,
    running: Iterable<SequenceView>,
    waiting: Iterable<SequenceView>,
  ): void {
    this.policy = policy
    this.fallback = undefined
    this.#fault = undefined
    this.#waitsSince = undefined
    this.#waitedMs = 0
    for (const request of running) this.#tell({ type: 'admitted', request, now })
    for (const request of waiting) this.#tell({ type: 'queued', request, now })
  }

  /**
   * A valid plan. A policy that throws, makes an invalid plan or runs no request for too long is
   * replaced. Throws `policy_failed` with the policy's name when there is no replacement.
   */
  plan(state: Omit<SchedulerState, 'running'>, waiting: WaitingQueue, running: RunningSet): Plan {
    try {
      if (this.#fault !== undefined) throw this.#fault
      return this.#ask(state, waiting, running)
    } catch (error) {
      this.#fallBack(CllmError.from(error), state.now, waiting, running)
      return this.#ask(state, waiting, running)
    }
  }

  /**
   * The running request that gives its slot back for the others: the policy's choice, or the one that was
   * admitted last.
   */
  victim(state: Omit<SchedulerState, 'running'>, running: RunningSet): Sequence | undefined {
    const { policy } = this
    let chosen: string | undefined
    try {
      chosen = synchronous(policy.victim?.({ ...state, running: running.list }), 'victim')
    } catch (error) {
      this.#onThrown('victim', 'when asked for a victim', error)
    }
    return running.get(chosen ?? '') ?? running.list.at(-1)
  }

  /** The place of a request among those whose files are to be encoded: the least is next. */
  arrivalRank(request: ArrivalView): number {
    try {
      return synchronous(this.policy.arrivalRank?.(request) ?? 0, 'arrivalRank')
    } catch (error) {
      this.#onThrown('arrivalRank', 'when asked for a rank', error)
      return 0
    }
  }

  /** A tenant was served beside the steps. */
  onServed(service: TenantService): void {
    if (!Number.isFinite(service.promptTokens)) return
    try {
      synchronous(this.policy.onServedElsewhere?.([service]), 'onServedElsewhere')
    } catch (error) {
      this.#onThrown('onServedElsewhere', 'when told of a service', error)
    }
  }

  /** There are no requests to plan for. */
  onIdle(now: number): void {
    if (this.#waitsSince === undefined) return
    this.#waitedMs += now - this.#waitsSince
    this.#waitsSince = undefined
  }

  onQueued(request: SequenceView, now: number): void {
    this.#tell({ type: 'queued', request, now })
  }

  onAdmitted(request: SequenceView, now: number): void {
    this.#tell({ type: 'admitted', request, now })
  }

  onPreempted(request: SequenceView, now: number): void {
    this.#tell({ type: 'preempted', request, now })
  }

  onFinished(request: SequenceView, now: number): void {
    this.#tell({ type: 'finished', request, now })
  }

  onStep(step: StepRecord): void {
    if (!step.isWhole) return
    const { endedAt: now, durationMs, prefillTokens, decodeSequences, contextTokens, parts } = step
    const sums = { durationMs, prefillTokens, decodeSequences, contextTokens }
    this.#tell({ type: 'step', now, ...sums, parts })
  }

  /**
   * Passes an event to the policy. A policy that throws is replaced at the next plan, or keeps planning
   * if there is no replacement.
   */
  #tell(event: SchedulerEvent): void {
    if (this.#fault !== undefined) return
    const when = `on the event "${event.type}"`
    try {
      const { policy } = this
      const result: unknown = policy.observe?.(event)
      if (!(result instanceof Promise)) return
      // A method that is async after all: its rejection would end the process.
      result.catch((error: unknown) => {
        if (this.policy === policy) this.#onThrown(event.type, when, error)
      })
    } catch (error) {
      this.#onThrown(event.type, when, error)
    }
  }

  #onThrown(event: string, when: string, error: unknown): void {
    const { name } = this.policy
    if (this.#canFallBack) {
      this.#fault = failed(name, `threw ${when}: ${String(error)}`, error)
      return
    }
    this.logger.error({ policy: name, event, error: String(error) }, 'the policy threw on an event')
  }

  #ask(state: Omit<SchedulerState, 'running'>, waiting: WaitingQueue, running: RunningSet): Plan {
    const { policy } = this
    const { batchSize } = state.limits
    let plan: Plan
    try {
      const { now, freeSlots } = state
      // A copy: what a policy in plain JavaScript takes out of it is not lost to the engine.
      plan = synchronous(policy.plan({ ...state, running: running.list }), 'plan')
      checkPlan(policy, plan, { now, freeSlots, waiting, running, batchSize })
    } catch (error) {
      if (CllmError.isInstance(error) && error.details.policy === policy.name) throw error
      throw failed(policy.name, `threw: ${String(error)}`, error)
    }
    if (plan.run.length > 0 || plan.reject.length > 0) {
      this.#waitsSince = undefined
      this.#waitedMs = 0
      return plan
    }
    // A policy may postpone its plan repeatedly, but not for ever.
    if (!this.#canFallBack) return plan
    this.#waitsSince ??= state.now
    const end = this.#waitsSince + this.options.policyPatienceMs - this.#waitedMs
    if (state.now < end) return { ...plan, wakeAt: Math.min(plan.wakeAt ?? end, end) }
    const what = `has run no request for too long while ${waiting.total} requests wait`
    throw failed(policy.name, what)
  }

  get #canFallBack(): boolean {
    return this.fallback === undefined && this.successor.create !== undefined
  }

  #fallBack(fault: CllmError, now: number, waiting: WaitingQueue, running: RunningSet): void {
    const next = this.#canFallBack ? this.successor.create?.() : undefined
    if (next === undefined) throw fault
    const { name } = this.policy
    this.logger.error(
      { policy: name, fallback: next.name, err: fault.cause ?? fault },
      `${fault.message}; ${next.name} takes over`,
    )
    this.faults++
    this.replace(next, now, running.values(), waiting.all())
    this.fallback = { from: name, reason: fault.message, since: now }
  }
}

function failed(policy: string, what: string, cause?: unknown): CllmError {
  return new CllmError('policy_failed', `The policy "${policy}" ${what}`, {
    details: { policy },
    ...defined({ cause }),
  })
}
