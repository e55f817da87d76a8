import type { Logger } from '../contracts/logger.js'
import type { FallbackInfo } from '../contracts/scheduler-info.js'
import type {
  Plan,
  SchedulerEvent,
  SchedulerPolicy,
  SchedulerState,
  SequenceView,
} from '../contracts/scheduler-policy.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkPlan } from './check-plan.js'
import type { Journal, RequestChange } from './journal.js'
import { Patience } from './patience.js'
import type { RunningSet } from './running-set.js'
import type { StepPart } from './run-step.js'
import type { WaitingQueue } from './waiting-queue.js'

/** What takes over from a policy that fails. */
export interface FallbackPolicy {
  /** Makes it; without, a policy's failure fails the requests that wait and run. */
  readonly create?: () => SchedulerPolicy
}

/** The policy in charge. */
export interface PolicyInForce {
  readonly policy: SchedulerPolicy
  /** What happened, while it is the fallback. */
  readonly fallback: FallbackInfo | undefined
}

/**
 * The place of the policy in an engine: who sits there can change, what it says is checked, and who
 * fails is replaced where there is a replacement.
 */
export class PolicySeat implements PolicyInForce {
  /** What happened, while the fallback is in charge. */
  fallback: FallbackInfo | undefined
  /** Policies that had to be replaced so far. */
  faults = 0
  /** What the policy did wrong since its last plan. */
  #fault: CllmError | undefined
  readonly #patience: Patience

  constructor(
    public policy: SchedulerPolicy,
    private readonly logger: Logger,
    private readonly successor: FallbackPolicy,
    patienceMs: number,
    readonly journal: Journal,
  ) {
    this.#patience = new Patience(patienceMs)
  }

  /** Puts another policy in charge and tells it of every request there is. */
  replace(
    policy: SchedulerPolicy,
    now: number,
    running: Iterable<SequenceView>,
    waiting: Iterable<SequenceView>,
  ): void {
    this.policy = policy
    this.fallback = undefined
    this.#fault = undefined
    this.#patience.reset()
    for (const request of running) this.#tell({ type: 'admitted', request, now })
    for (const request of waiting) this.#tell({ type: 'queued', request, now })
  }

  /**
   * A plan that can be carried out. A policy that throws, plans what cannot be or runs nobody for too
   * long is replaced. Throws `policy_failed` with the policy's name when there is no replacement.
   */
  plan(state: Omit<SchedulerState, 'running'>, waiting: WaitingQueue, running: RunningSet): Plan {
    let plan: Plan
    try {
      if (this.#fault !== undefined) throw this.#fault
      plan = this.#ask(state, waiting, running)
    } catch (error) {
      this.#fallBack(CllmError.from(error), state.now, waiting, running)
      plan = this.#ask(state, waiting, running)
    }
    this.journal.planned(plan, state, running)
    return plan
  }

  /** Nobody is there to plan for. */
  rest(now: number): void {
    this.#patience.pause(now)
  }

  /** Tells of a request. */
  observe(change: RequestChange): void {
    this.journal.changed(change)
    this.#tell(change)
  }

  /** Tells of a step; `isWhole` when its time teaches something. */
  observeStep(parts: readonly StepPart[], startedAt: number, now: number, isWhole: boolean): void {
    this.journal.stepped(parts, startedAt, now)
    if (!isWhole || this.policy.observe === undefined) return
    let prefillTokens = 0
    let decodeSequences = 0
    let contextTokens = 0
    for (const part of parts) {
      if (part.isDecode) decodeSequences++
      else prefillTokens += part.tokens
      contextTokens += part.sequence.computedTokens
    }
    const load = { prefillTokens, decodeSequences, contextTokens }
    const seen = parts.map(({ sequence, tokens }) => {
      return { request: sequence, tokens, context: sequence.computedTokens }
    })
    this.#tell({ type: 'step', now, durationMs: now - startedAt, ...load, parts: seen })
  }

  /**
   * Tells the policy. One that fails to listen is replaced with the next plan, or, where there is no
   * replacement, goes on planning.
   */
  #tell(event: SchedulerEvent): void {
    if (this.#fault !== undefined) return
    try {
      this.policy.observe?.(event)
    } catch (error) {
      const { name } = this.policy
      if (this.#canFallBack) {
        this.#fault = failed(name, `threw on the event "${event.type}": ${String(error)}`, error)
        return
      }
      const fields = { policy: name, event: event.type, error: String(error) }
      this.logger.error(fields, 'the policy threw on an event')
    }
  }

  #ask(state: Omit<SchedulerState, 'running'>, waiting: WaitingQueue, running: RunningSet): Plan {
    const { policy } = this
    const { batchSize } = state.limits
    let plan: Plan
    try {
      plan = policy.plan({ ...state, running: running.list })
      checkPlan(policy, plan, { ...state, waiting, running, batchSize })
    } catch (error) {
      if (CllmError.isInstance(error) && error.details.policy === policy.name) throw error
      throw failed(policy.name, `threw: ${String(error)}`, error)
    }
    return this.#canFallBack ? this.#withPatience(plan, state.now, waiting.total) : plan
  }

  /** A policy may wait, and be called again later and later, but not for ever. */
  #withPatience(plan: Plan, now: number, waiting: number): Plan {
    if (plan.run.length > 0 || plan.reject.length > 0) {
      this.#patience.reset()
      return plan
    }
    const end = this.#patience.wait(now)
    if (now < end) return { ...plan, wakeAt: Math.min(plan.wakeAt ?? end, end) }
    throw failed(this.policy.name, `has run nobody for too long while ${waiting} requests wait`)
  }

  get #canFallBack(): boolean {
    return this.fallback === undefined && this.successor.create !== undefined
  }

  #fallBack(fault: CllmError, now: number, waiting: WaitingQueue, running: RunningSet): void {
    const next = this.#canFallBack ? this.successor.create?.() : undefined
    if (next === undefined) throw fault
    const { name } = this.policy
    this.logger.error(
      { policy: name, fallback: next.name, cause: fault.cause },
      `${fault.message}; ${next.name} takes over`,
    )
    this.faults++
    this.replace(next, now, running.list, waiting.everyone())
    this.fallback = { from: name, reason: fault.message, since: now }
  }
}

function failed(policy: string, what: string, cause?: unknown): CllmError {
  return new CllmError('policy_failed', `The policy "${policy}" ${what}`, {
    details: { policy },
    ...(cause === undefined ? {} : { cause }),
  })
}
