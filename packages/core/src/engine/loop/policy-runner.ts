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
import { RunningSet, WaitingQueue } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import { isOfPart, synchronous } from '../../plugin/checks.js'

/** The policy that takes over from one that fails. */
export interface FallbackPolicy {
  /** Makes it; without it, a failing policy fails all waiting and running requests. */
  readonly create?: () => SchedulerPolicy
}

/** The {@link FallbackPolicy}. */
export const FALLBACK_POLICY = tokens.token<FallbackPolicy>('FallbackPolicy')

/** The state to plan for, without the running requests: the policy gets its own copy of that list. */
export type Situation = Omit<SchedulerState, 'running'>

/** The active policy. */
export interface PolicyInForce {
  readonly policy: SchedulerPolicy
  /** Set while the fallback policy is active: why it took over. */
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
  /** The number of failed policies that were replaced. */
  faults = 0
  /** The policy's failure since its last plan. */
  #fault: CllmError | undefined
  /**
   * A policy is replaced when requests have waited for too long while none ran. This is when the present wait began; the
   * next field has the milliseconds of earlier waits that ended as all requests had left.
   */
  #waitsSince: number | undefined
  #waitedMs = 0

  constructor(
    @inject(tokens.SCHEDULER_POLICY) public policy: SchedulerPolicy,
    @inject(FALLBACK_POLICY) private readonly successor: FallbackPolicy,
    @inject(tokens.LOGGER) private readonly logger: Logger,
    @inject(ENGINE_OPTIONS) private readonly options: EngineOptions,
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(RunningSet) private readonly running: RunningSet,
  ) {}

  /**
   * Switches to another policy and announces every current request to it.
   *
   * @param fallback - if it is the fallback policy: why it takes over
   */
  replace(policy: SchedulerPolicy, now: number, fallback?: FallbackInfo): void {
    this.policy = policy
    this.fallback = fallback
    this.#fault = undefined
    this.#waitsSince = undefined
    this.#waitedMs = 0
    for (const request of this.running.values()) this.#tell({ type: 'admitted', request, now })
    for (const request of this.waiting.all()) this.#tell({ type: 'queued', request, now })
  }

  /**
   * Returns a valid plan. A policy that throws, makes an invalid plan or runs no request for too long is replaced by the
   * fallback. Throws `policy_failed` with the policy's name if there is none.
   */
  plan(state: Situation): Plan {
    try {
      if (this.#fault !== undefined) throw this.#fault
      return this.#ask(state)
    } catch (error) {
      if (isOfPart(error)) throw error
      this.#fallBack(CllmError.from(error), state.now)
      return this.#ask(state)
    }
  }

  /**
   * The running request to preempt when KV cells run out: the policy's choice, or the one that was admitted last.
   */
  victim(state: Situation): Sequence | undefined {
    const { policy, running } = this
    const choose = () => policy.victim?.({ ...state, running: running.list })
    const chosen = this.#call('victim', choose)
    return running.get(chosen ?? '') ?? running.list.at(-1)
  }

  /** The rank of a request whose files wait to be encoded: the lowest is next. */
  arrivalRank(request: ArrivalView): number {
    return this.#call('arrivalRank', () => this.policy.arrivalRank?.(request)) ?? 0
  }

  /** A tenant was served beside the steps. */
  onServed(service: TenantService): void {
    if (!Number.isFinite(service.promptTokens)) return
    this.#call('onServedElsewhere', () => this.policy.onServedElsewhere?.([service]))
  }

  /** Called while there are no requests to plan for. */
  onIdle(now: number): void {
    if (this.#waitsSince === undefined) return
    this.#waitedMs += now - this.#waitsSince
    this.#waitsSince = undefined
  }

  readonly onQueued = this.#tellerOf('queued')
  readonly onAdmitted = this.#tellerOf('admitted')
  readonly onPreempted = this.#tellerOf('preempted')
  readonly onFinished = this.#tellerOf('finished')

  #tellerOf(type: 'queued' | 'admitted' | 'preempted' | 'finished') {
    return (request: SequenceView, now: number): void => this.#tell({ type, request, now })
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
    const call = `observe on the event "${event.type}"`
    try {
      const { policy } = this
      const result: unknown = policy.observe?.(event)
      if (!(result instanceof Promise)) return
      // The method is async, against its contract: an unhandled rejection would end the process.
      result.catch((error: unknown) => {
        if (this.policy === policy) this.#onThrown(call, error)
      })
    } catch (error) {
      this.#onThrown(call, error)
    }
  }

  /** Calls a method of the policy; undefined if it throws. */
  #call<T>(method: string, call: () => T): T | undefined {
    try {
      return synchronous(call(), method)
    } catch (error) {
      this.#onThrown(method, error)
      return undefined
    }
  }

  #onThrown(call: string, error: unknown): void {
    const { name } = this.policy
    if (this.#canFallBack && !isOfPart(error)) {
      this.#fault = failed(name, `threw in ${call}: ${String(error)}`, error)
      return
    }
    this.logger.error({ policy: name, call, error: String(error) }, 'the policy threw')
  }

  #ask(state: Situation): Plan {
    const { policy, waiting, running } = this
    const { now, freeSlots, limits } = state
    let plan: Plan
    try {
      // The list is a copy: a policy in plain JavaScript may modify it.
      plan = synchronous(policy.plan({ ...state, running: running.list }), 'plan')
      checkPlan(policy, plan, { now, freeSlots, waiting, running, batchSize: limits.batchSize })
    } catch (error) {
      const isNamed = CllmError.isInstance(error) && error.details.policy === policy.name
      if (isNamed || isOfPart(error)) throw error
      throw failed(policy.name, `threw: ${String(error)}`, error)
    }
    if (plan.run.length > 0 || plan.reject.length > 0) {
      this.#waitsSince = undefined
      this.#waitedMs = 0
      return plan
    }
    // A policy may postpone repeatedly, but not for ever.
    if (!this.#canFallBack) return plan
    this.#waitsSince ??= now
    const end = this.#waitsSince + this.options.policyPatienceMs - this.#waitedMs
    if (now < end) return { ...plan, wakeAt: Math.min(plan.wakeAt ?? end, end) }
    const what = `has run no request for too long while ${waiting.total} requests wait`
    throw failed(policy.name, what)
  }

  get #canFallBack(): boolean {
    return this.fallback === undefined && this.successor.create !== undefined
  }

  #fallBack(fault: CllmError, now: number): void {
    const next = this.#canFallBack ? this.successor.create?.() : undefined
    if (next === undefined) throw fault
    const { name } = this.policy
    this.logger.error(
      { policy: name, fallback: next.name, err: fault.cause ?? fault },
      `${fault.message}; ${next.name} takes over`,
    )
    this.faults++
    this.replace(next, now, { from: name, reason: fault.message, since: now })
  }
}

function failed(policy: string, what: string, cause?: unknown): CllmError {
  const details = { policy }
  return new CllmError('policy_failed', `The policy "${policy}" ${what}`, { details, cause })
}
