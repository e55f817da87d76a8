import assert from 'node:assert/strict'
import type {
  Plan,
  SchedulerState,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'

/** The requests that a plan may name. */
export interface Requests {
  readonly waiting: ReadonlyMap<string, SequenceView>
  readonly running: ReadonlyMap<string, SequenceView>
}

/** Throws an `AssertionError` when a plan breaks the rules of `Plan`. */
export function assertPlan(plan: Plan, state: SchedulerState, requests: Requests): void {
  const { waiting, running } = requests
  for (const id of [...plan.admit, ...plan.reject.map((entry) => entry.id)]) {
    assert(waiting.has(id), `admit and reject name waiting requests only, instead got "${id}"`)
  }
  assertDistinct('admit and reject', [...plan.admit, ...plan.reject.map((entry) => entry.id)])
  for (const { id, reason } of plan.reject) {
    assert(typeof reason === 'string' && reason !== '', `"${id}" is rejected without a reason`)
  }
  for (const id of plan.preempt) {
    assert(running.has(id), `preempt names running requests only, instead got "${id}"`)
  }
  assertDistinct('preempt', plan.preempt)
  const slots = state.freeSlots + plan.preempt.length
  assert(plan.admit.length <= slots, `${plan.admit.length} are admitted to ${slots} free slots`)
  assertRun(plan, state, requests)

  const wakes = plan.wakeAt !== undefined && plan.wakeAt > state.now
  const goesOn = plan.run.length > 0 || plan.reject.length > 0 || wakes
  const count = waiting.size + running.size
  assert(goesOn, `a stall: ${count} requests want to go on, none runs and no time to wake is named`)
}

function assertRun(plan: Plan, state: SchedulerState, { waiting, running }: Requests): void {
  assertDistinct(
    'run',
    plan.run.map(({ id }) => id),
  )
  let total = 0
  const groups = new Set<string | undefined>()
  for (const { id, tokens } of plan.run) {
    const request = plan.admit.includes(id) ? waiting.get(id) : running.get(id)
    assert(
      request !== undefined && !plan.preempt.includes(id),
      `run names running or just admitted requests only, instead got "${id}"`,
    )
    const isCount = Number.isInteger(tokens) && tokens >= 1
    assert(isCount, `"${id}" runs ${tokens} tokens, expected a whole number from 1`)
    total += Math.min(tokens, request.remainingTokens)
    groups.add(request.stepGroup)
  }
  const { batchSize } = state.limits
  assert(total <= batchSize, `the step has ${total} tokens, batchSize is ${batchSize}`)
  assert(
    groups.size <= 1,
    `step groups share a step: ${[...groups].map((group) => group ?? 'none').join(', ')}`,
  )
}

function assertDistinct(where: string, ids: readonly string[]): void {
  const twice = ids.find((id, index) => ids.indexOf(id) !== index)
  assert(twice === undefined, `${where} names "${twice}" twice`)
}
