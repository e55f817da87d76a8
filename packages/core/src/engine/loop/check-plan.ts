import type {
  Plan,
  SchedulerPolicy,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'
import { CllmError } from '../../errors/cllm-error.js'

/** The requests that a plan may name. */
interface Known {
  readonly size: number
  get(id: string): Pick<SequenceView, 'remainingTokens' | 'stepGroup'> | undefined
}

/** The state that a plan is checked against. */
interface PlanContext {
  readonly waiting: Known
  readonly running: Known
  readonly freeSlots: number
  readonly batchSize: number
  readonly now: number
}

/** Checks a plan. @throws `policy_failed` with the policy's name and what is wrong */
export function checkPlan(policy: SchedulerPolicy, plan: Plan, context: PlanContext): void {
  const wrong = (what: string): CllmError =>
    new CllmError('policy_failed', `The policy "${policy.name}" made a wrong plan: ${what}`, {
      details: { policy: policy.name },
    })
  const lists: readonly unknown[] = [plan?.admit, plan?.preempt, plan?.reject, plan?.run]
  if (!lists.every(Array.isArray)) {
    throw wrong('it expects the lists admit, preempt, reject and run')
  }
  for (const entry of [...plan.run, ...plan.reject]) {
    if (typeof entry?.id !== 'string') throw wrong('each entry of reject and run expects an id')
  }
  const { admit, reject } = plan
  // Most plans reject none.
  const leaves = reject.length === 0 ? admit : [...admit, ...reject.map(({ id }) => id)]
  const leaving = new Set<string>()
  for (const id of leaves) {
    if (context.waiting.get(id) === undefined) {
      throw wrong(`admit and reject expect ids of waiting requests, instead got "${id}"`)
    }
    if (leaving.has(id)) throw wrong(`"${id}" is admitted or rejected twice`)
    leaving.add(id)
  }
  const preempted = new Set(plan.preempt)
  for (const id of preempted) {
    if (context.running.get(id) === undefined) {
      throw wrong(`preempt expects ids of running requests, instead got "${id}"`)
    }
  }
  const slots = context.freeSlots + preempted.size
  if (plan.admit.length > slots) {
    throw wrong(`it admits ${plan.admit.length} requests to ${slots} free slots`)
  }

  const admitted = new Set(plan.admit)
  const named = new Set<string>()
  let total = 0
  let group: string | undefined
  for (const { id, tokens, drafts = 0 } of plan.run) {
    const sequence = admitted.has(id) ? context.waiting.get(id) : context.running.get(id)
    if (sequence === undefined || preempted.has(id)) {
      throw wrong(`run expects running or just admitted requests, instead got "${id}"`)
    }
    if (named.has(id)) throw wrong(`"${id}" runs twice`)
    if (!Number.isInteger(tokens) || tokens < 1) {
      throw wrong(`"${id}" runs a whole number of tokens from 1, instead got ${tokens}`)
    }
    if (!Number.isInteger(drafts) || drafts < 0) {
      throw wrong(`"${id}" verifies a whole number of drafts from 0, instead got ${drafts}`)
    }
    if (named.size > 0 && sequence.stepGroup !== group) {
      throw wrong(`"${id}" is of another step group than the others of the step`)
    }
    group = sequence.stepGroup
    named.add(id)
    total += Math.min(tokens, sequence.remainingTokens) + drafts
  }
  if (total > context.batchSize) {
    throw wrong(`it runs ${total} tokens, a step takes ${context.batchSize}`)
  }
  const { wakeAt } = plan
  if (wakeAt !== undefined && !Number.isFinite(wakeAt)) {
    throw wrong(`wakeAt expects a time in milliseconds, instead got ${wakeAt}`)
  }
  const wakes = wakeAt !== undefined && wakeAt > context.now
  const stalls = plan.run.length === 0 && plan.reject.length === 0 && !wakes
  if (stalls) {
    const count = context.waiting.size + context.running.size
    throw wrong(`${count} requests want to go on, it runs none and names no later time to wake`)
  }
}
