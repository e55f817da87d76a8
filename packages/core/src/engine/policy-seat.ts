import type { Logger } from '../contracts/logger.js'
import type {
  Plan,
  SchedulerEvent,
  SchedulerPolicy,
  SchedulerState,
} from '../contracts/scheduler-policy.js'
import { CllmError } from '../errors/cllm-error.js'
import { checkPlan } from './check-plan.js'
import type { RunningSet } from './running-set.js'
import type { StepPart } from './run-step.js'
import type { WaitingQueue } from './waiting-queue.js'

/** The place of the policy in an engine: who sits there can change, what it says is checked. */
export class PolicySeat {
  constructor(
    public policy: SchedulerPolicy,
    private readonly logger: Logger,
  ) {}

  /** A plan that can be carried out. Throws `policy_failed` with the policy's name. */
  plan(state: Omit<SchedulerState, 'running'>, waiting: WaitingQueue, running: RunningSet): Plan {
    const { policy } = this
    const { batchSize } = state.limits
    try {
      const plan = policy.plan({ ...state, running: running.list })
      checkPlan(policy, plan, { ...state, waiting, running, batchSize })
      return plan
    } catch (error) {
      const { name } = policy
      if (CllmError.isInstance(error) && error.details.policy === name) throw error
      const message = `The policy "${name}" threw: ${String(error)}`
      throw new CllmError('policy_failed', message, { details: { policy: name }, cause: error })
    }
  }

  /** A policy that fails to listen can still plan, so its error is logged and the work goes on. */
  observe(event: SchedulerEvent): void {
    try {
      this.policy.observe?.(event)
    } catch (error) {
      const fields = { policy: this.policy.name, event: event.type, error: String(error) }
      this.logger.error(fields, 'the policy threw on an event')
    }
  }

  observeStep(parts: readonly StepPart[], startedAt: number, now: number): void {
    if (this.policy.observe === undefined) return
    let prefillTokens = 0
    let decodeSequences = 0
    let contextTokens = 0
    for (const part of parts) {
      if (part.isDecode) decodeSequences++
      else prefillTokens += part.tokens
      contextTokens += part.sequence.computedTokens
    }
    const load = { prefillTokens, decodeSequences, contextTokens }
    const seen = parts.map(({ sequence, tokens }) => ({ request: sequence, tokens }))
    this.observe({ type: 'step', now, durationMs: now - startedAt, ...load, parts: seen })
  }
}
