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

/** After admissions that took longer than this, in milliseconds, the policy plans again. */
const pauseMs = 2

/** The next step to compute. */
interface PlannedStep {
  /** Empty: nothing can be computed now. */
  readonly parts: readonly StepPart[]
  /** When the policy wants to plan again at the latest. */
  readonly wakeAt: number | undefined
  /** Whether the loop may sleep until `wakeAt` or the next event. */
  readonly mayRest: boolean
}

/** Asks the policy for the next step and carries its plan out: gives slots to requests and takes them back. */
@injectable()
export class StepPlanner implements EngineObserver {
  /** Whether planning takes so long that sampled tokens should be published before. */
  readonly takesTime: boolean
  /** The parts of the step that is being computed; empty between steps. */
  computing: readonly StepPart[] = []
  /** The number of interrupted steps. */
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
    // Saving and restoring slots has delayed decoding requests: the policy plans anew, without a prompt's chunk on top.
    if (later - now > pauseMs && this.#leavesOut(plan)) {
      plan = this.#plan(later)
      await this.#carryOut(plan, later, false)
    }
    if (this.speculator.takesTime) await this.speculator.guess(plan)
    let parts: readonly StepPart[] = partsOf(plan, running, batchSize)
    if (parts.length === 0) {
      // The plan has only requests that are held back: they are admitted, as nothing would be computed otherwise.
      await this.#carryOut(plan, now, true)
      parts = partsOf(plan, running, batchSize)
    }
    if (this.kv.isPool) parts = await this.#makeRoom(parts, now)
    const { wakeAt } = plan
    if (parts.length > 0) return { parts, wakeAt, mayRest: false }
    // Requests became visible that the plan does not know.
    const isOutdated = waiting.size > visible
    // What the plan runs may not fit into the pool of KV cells: others can run.
    const waits = wakeAt !== undefined && plan.run.length === 0
    return { parts, wakeAt, mayRest: !isOutdated && (waits || this.kv.isReading) }
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

  /** Whether the step leaves out requests that decode. */
  #leavesOut({ run }: Plan): boolean {
    const ids = new Set(run.map(({ id }) => id))
    for (const { id, state } of this.table.running.values()) {
      if (state === 'decoding' && !ids.has(id)) return true
    }
    return false
  }

  /** Carries out the plan's refusals, preemptions and admissions. */
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

  /** Preempts requests one by one until the step's tokens fit into the pool of KV cells. */
  async #makeRoom(parts: readonly StepPart[], now: number): Promise<readonly StepPart[]> {
    const { running } = this.table
    // Idle slots are not emptied for the sake of drafts.
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
   * Interrupts a step of the batch lane when a client's request arrives that could have a slot: no client waits for
   * that step, and a prompt chunk may take long.
   */
  onQueued(request: SequenceView): void {
    if (this.computing.length === 0 || isOfBatch(request)) return
    if (!this.computing.every((part) => isOfBatch(part.request)) || !this.#hasRoom) return
    this.backend.interrupt?.()
    // Interrupt a step only once: if it cannot be interrupted, further calls would not help.
    this.computing = []
  }

  get #hasRoom(): boolean {
    const { running } = this.table
    return this.kv.freeSlots > 0 || running.list.some((sequence) => this.table.isLeaving(sequence))
  }
}
