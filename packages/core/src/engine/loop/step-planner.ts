import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { Clock } from '../../contracts/services.js'
import type { Plan, SequenceView } from '../../contracts/scheduling/scheduler-policy.js'
import { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { KV_CACHE_MANAGER, type KVCacheManager } from '../engine-parts.js'
import { PolicyRunner, type Situation } from './policy-runner.js'
import { EngineObservers } from '../report/engine-observers.js'
import { Programs } from '../programs/programs.js'
import { RequestTable } from '../requests/request-table.js'
import { type StepPart, partsOf, tokensOf, withoutDrafts } from './run-step.js'
import { Speculator } from '../speculation/speculator.js'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'

/** Admissions that took longer than this are a pause for requests that decode. */
const pauseMs = 2

/** What is to be computed next. */
interface PlannedStep {
  /** None: nothing can be computed now. */
  readonly parts: readonly StepPart[]
  /** When the policy wants to be asked again, though nothing may happen before. */
  readonly wakeAt: number | undefined
  /** Whether the next plan may wait until then, or until something has happened. */
  readonly mayRest: boolean
}

/** Asks the policy what the next step is, and does what it takes: slots are given out and taken back. */
@injectable()
export class StepPlanner implements EngineObserver {
  /** Whether making a plan takes so long that tokens which are there should not wait for it. */
  readonly takesTime: boolean
  /** What the step under way computes; none: between steps. */
  computing: readonly StepPart[] = []
  /** Steps that were interrupted; one that ended before it heard of it is not. */
  interruptedSteps = 0

  constructor(
    @inject(tokens.BACKEND) private readonly backend: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(KV_CACHE_MANAGER) private readonly kv: KVCacheManager,
    @inject(Speculator) private readonly speculator: Speculator,
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(Programs) private readonly programs: Programs,
  ) {
    this.takesTime = speculator.takesTime
  }

  /** The next step. Throws `policy_failed`. */
  async next(now: number): Promise<PlannedStep> {
    const { waiting, running } = this.table
    const { batchSize } = this.backend.limits
    if (this.table.samples.all.size > 0) this.table.turnSamples(now)
    let plan = this.#plan(now)
    const visible = waiting.size
    await this.#carryOut(plan, now, false)
    const later = this.clock.now()
    // What saving and restoring slots took, a prompt's chunk is not to add to: the policy is asked anew.
    if (later - now > pauseMs && this.#leavesOut(plan)) {
      plan = this.#plan(later)
      await this.#carryOut(plan, later, false)
    }
    if (this.speculator.takesTime) await this.speculator.guess(plan)
    let parts: readonly StepPart[] = partsOf(plan, running, batchSize)
    if (parts.length === 0) {
      // A plan of held requests only gets them: otherwise nothing would be computed.
      await this.#carryOut(plan, now, true)
      parts = partsOf(plan, running, batchSize)
    }
    if (this.kv.isPool) parts = await this.#makeRoom(parts, now)
    const { wakeAt } = plan
    if (parts.length > 0) return { parts, wakeAt, mayRest: false }
    // Requests came into sight that the plan does not know.
    const isOutdated = waiting.size > visible
    return { parts, wakeAt, mayRest: !isOutdated && (wakeAt !== undefined || this.kv.isReading) }
  }

  #state(now: number): Situation {
    const { waiting } = this.table
    const { kv, backend, programs } = this
    return { now, waiting, freeSlots: kv.freeSlots, limits: backend.limits, programs }
  }

  #plan(now: number): Plan {
    const state = this.#state(now)
    let plan = this.policy.plan(state)
    if (this.speculator.isOn) plan = this.speculator.complete(plan)
    this.observers.tell('onPlan', plan, { ...state, running: this.table.running.list })
    return plan
  }

  /** Whether requests that decode are not in the step. */
  #leavesOut({ run }: Plan): boolean {
    const ids = new Set(run.map(({ id }) => id))
    for (const { id, state } of this.table.running.values()) {
      if (state === 'decoding' && !ids.has(id)) return true
    }
    return false
  }

  /** Does what the plan says of slots: they are taken back, and given out. */
  async #carryOut(plan: Plan, now: number, insists: boolean): Promise<void> {
    const { table } = this
    for (const { id, reason } of plan.reject) {
      const sequence = table.waiting.get(id)
      if (sequence === undefined) continue
      table.finish(sequence, now, new CllmError('rejected', reason))
    }
    for (const id of plan.preempt) {
      const sequence = table.running.get(id)
      if (sequence !== undefined) table.preempt(sequence, now)
    }
    if (plan.admit.length > 0) await table.admitAll(plan, now, insists)
    table.settle(now)
  }

  /** Where the tokens do not fit into the KV cells, requests give their slots back, one by one. */
  async #makeRoom(parts: readonly StepPart[], now: number): Promise<readonly StepPart[]> {
    const { running } = this.table
    // Drafts are no reason to empty a slot.
    if (tokensOf(parts) > (this.backend.freeTokens ?? Infinity)) parts = parts.map(withoutDrafts)
    while (!(await this.kv.fits(tokensOf(parts))) && running.size > 1) {
      const victim = this.policy.victim(this.#state(now))
      if (victim === undefined) break
      this.table.preempt(victim, now)
      this.kv.onOverflow()
      parts = parts.filter(({ request }) => request !== victim)
    }
    return parts
  }

  /**
   * Interrupts a step of batches when a client's request comes that could have a slot: nobody waits for what
   * the step computes, and a chunk of a prompt may take long.
   */
  onQueued(request: SequenceView): void {
    if (this.computing.length === 0 || isOfBatch(request)) return
    if (!this.computing.every((part) => isOfBatch(part.request)) || !this.#hasRoom) return
    this.backend.interrupt?.()
    // Once is enough: what it was for is not asked again of a step that goes on.
    this.computing = []
  }

  get #hasRoom(): boolean {
    const { running } = this.table
    return this.kv.freeSlots > 0 || running.list.some((sequence) => this.table.isLeaving(sequence))
  }
}
