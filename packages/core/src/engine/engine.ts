import { inject, injectable } from 'tsyringe'
import type { Backend, StepOutput } from '../contracts/backend.js'
import type { Clock, Random } from '../contracts/clock.js'
import type { EngineInfo, GenerateRequest } from '../contracts/engine-client.js'
import type { EngineStatistics } from '../contracts/engine-statistics.js'
import type { Logger } from '../contracts/logger.js'
import type { RequestReport } from '../contracts/request-report.js'
import type { Plan, SchedulerPolicy } from '../contracts/scheduler-policy.js'
import type { Tokenizer } from '../contracts/tokenizer.js'
import { CllmError } from '../errors/cllm-error.js'
import * as tokens from '../tokens.js'
import { Counters, endState } from './counters.js'
import { Departures } from './departures.js'
import { Embeddings } from './embeddings.js'
import type { EngineOptions } from './engine-options.js'
import { Intake } from './intake.js'
import { Journal } from './journal.js'
import { Outbox, type EventListener } from './outbox.js'
import { type FallbackPolicy, type PolicyInForce, PolicySeat } from './policy-seat.js'
import { Roster } from './roster.js'
import { partsOf, runStep, type Step, type StepOutcome, type StepPart } from './run-step.js'
import type { Sequence } from './sequence.js'
import { WakeSignal } from './wake-signal.js'

/**
 * Serves requests on one backend: an event-driven loop that plans a step, starts it, and turns the
 * tokens of the step before into events while the model computes. It sleeps when there is nothing to
 * do.
 */
@injectable()
export class Engine {
  /** @internal What happened to each request. */
  readonly journal: Journal
  /** @internal Told of each step before it is computed. */
  onStep: (parts: readonly StepPart[]) => void = () => {}
  readonly #counters = new Counters()
  readonly #outbox = new Outbox()
  readonly embeddings: Embeddings
  readonly #seat: PolicySeat
  readonly #roster: Roster
  readonly #intake: Intake
  readonly #wake: WakeSignal
  readonly #departures: Departures
  #planWakesAt: number | undefined
  #isClosed = false
  readonly #onIdle: (() => void)[] = []
  readonly #done: Promise<void>

  constructor(
    @inject(tokens.BACKEND) readonly backend: Backend,
    @inject(tokens.TOKENIZER) readonly tokenizer: Tokenizer,
    @inject(tokens.SCHEDULER_POLICY) policy: SchedulerPolicy,
    @inject(tokens.FALLBACK_POLICY) fallback: FallbackPolicy,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.RANDOM) random: Random,
    @inject(tokens.LOGGER) logger: Logger,
    @inject(tokens.ENGINE_OPTIONS) options: EngineOptions,
  ) {
    const { policyPatienceMs } = options
    this.journal = new Journal(clock, this.#counters)
    this.embeddings = new Embeddings(backend, tokenizer)
    this.#seat = new PolicySeat(policy, logger, fallback, policyPatienceMs, this.journal)
    this.#roster = new Roster(backend, this.#seat, clock)
    this.#intake = new Intake(this, this.#roster, this.#outbox, clock, random, options)
    this.#wake = new WakeSignal(clock)
    const notify = () => this.#wake.notify()
    this.#departures = new Departures(this.#roster, this.#outbox, this.journal, logger, notify)
    this.#done = this.#run()
  }

  /** Says where the events go: one listener, set before the first request. */
  onEvents(listener: EventListener): void {
    this.#outbox.listener = listener
  }

  /** Takes a request. Whatever is wrong with it comes as its `error` event. */
  submit(id: string, request: GenerateRequest): void {
    this.#intake.take(id, request)
  }

  /** @internal */
  accept(sequence: Sequence): void {
    const { id, promptTokens, request, forecast } = sequence
    this.#roster.add(sequence)
    const more = request.forecast && forecast !== undefined ? { forecast } : {}
    this.#outbox.listener([{ id, event: { type: 'start', id, promptTokens, ...more } }])
    this.#wake.notify()
  }

  /** @internal */
  refuse(id: string, error: CllmError): void {
    this.#counters.requests[endState(error)]++
    this.#outbox.listener([{ id, event: { type: 'error', error: error.serialize() } }])
    this.#wake.notify()
  }

  /** Ends a request; its slot is free before the next step. Unknown ids are ignored. */
  cancel(id: string, reason = 'The request was cancelled'): void {
    const error = new CllmError('cancelled', reason)
    if (this.#intake.giveUp(id, error)) return
    const sequence = this.#roster.find(id)
    if (sequence !== undefined) this.#departures.mark(sequence, error)
  }

  /** What happened to a request that is under way or was one of the last that ended. */
  explain(id: string): RequestReport | undefined {
    const report = this.journal.find(id)
    const queuePosition = this.#roster.waiting.placeOf(id)
    return report && { ...report, ...(queuePosition === undefined ? {} : { queuePosition }) }
  }

  /** The policy in force, and why it is the fallback where it is. */
  scheduler(): PolicyInForce {
    return this.#seat
  }

  /** Puts another policy in charge from the next step on. It is told of every request there is. */
  setPolicy(policy: SchedulerPolicy): void {
    const { running, waiting } = this.#roster
    this.#seat.replace(policy, this.clock.now(), running.list, waiting.everyone())
    this.#wake.notify()
  }

  /** What it serves. */
  info(): EngineInfo {
    const { model, limits, capabilities } = this.backend
    return { model, limits, capabilities }
  }

  /** Counters and what is going on now. */
  statistics(): EngineStatistics {
    return {
      ...this.#roster.statistics(),
      policyFaults: this.#seat.faults,
      ...this.#counters.snapshot(),
    }
  }

  /** Refuses new requests and resolves when the last one has ended. */
  async drain(): Promise<void> {
    this.#intake.isOpen = false
    if (this.#isIdle) return
    await new Promise<void>((resolve) => this.#onIdle.push(resolve))
  }

  /** Ends every request with `shutting_down` and stops after the step that is running. */
  async close(): Promise<void> {
    const error = new CllmError('shutting_down', 'The engine is shutting down')
    this.#intake.close(error)
    for (const sequence of this.#roster.all()) this.#departures.mark(sequence, error)
    this.#isClosed = true
    this.#wake.notify()
    await this.#done
  }

  async #loop(): Promise<void> {
    while (!this.#isClosed) {
      const began = this.clock.now()
      this.#departures.settle(began)
      const step = await this.#startStep(began)
      this.#publish()
      if (step !== undefined) this.#append(step, await step.outcome)
      const took = this.clock.now() - began
      this.#counters.busyMs += took
      if (step !== undefined) this.#roster.forecaster.stepped(step.parts, took)
      if (step === undefined) await this.#wake.sleep(this.#roster.wakesAt(this.#planWakesAt))
    }
  }

  /** The loop with its end: whatever ends it, no request is left without an answer. */
  async #run(): Promise<void> {
    try {
      await this.#loop()
    } catch (error) {
      this.#intake.isOpen = false
      this.#departures.failAll(CllmError.from(error), this.clock.now())
    }
    this.#departures.settle(this.clock.now())
    this.#publish()
  }

  /** Asks the policy what to do, and does it up to the start of the step. */
  async #startStep(now: number): Promise<Step | undefined> {
    this.#planWakesAt = undefined
    if (this.#roster.isIdle) this.#seat.rest(now)
    if (this.#isClosed || this.#roster.isIdle) return undefined
    try {
      const plan = this.#plan(now)
      const visible = this.#roster.waiting.size
      await this.#apply(plan, now)
      let parts = partsOf(plan, this.#roster.running, this.backend.limits.batchSize)
      if (parts.length === 0) {
        // A policy that wants only those who wait for a prefix gets them: nobody else would go on.
        await this.#admit(plan, now, true)
        parts = partsOf(plan, this.#roster.running, this.backend.limits.batchSize)
      }
      if (parts.length > 0) {
        await this.#roster.tidy()
        if (this.embeddings.isBusy) await this.embeddings.beforeStep()
        this.onStep(parts)
        const startedAt = this.clock.now()
        return { parts, startedAt, outcome: this.embeddings.during(runStep(this.backend, parts)) }
      }
      this.#planWakesAt = plan.wakeAt
      // Whoever came into sight meanwhile is planned for at once.
      if (plan.wakeAt === undefined || this.#roster.waiting.size > visible) this.#wake.notify()
    } catch (error) {
      this.#departures.failAll(CllmError.from(error), now)
    }
    return undefined
  }

  #plan(now: number): Plan {
    const { waiting, running, slots } = this.#roster
    const state = { now, waiting, freeSlots: slots.freeCount, limits: this.backend.limits }
    return this.#seat.plan(state, waiting, running)
  }

  async #apply(plan: Plan, now: number): Promise<void> {
    for (const { id, reason } of plan.reject) {
      const sequence = this.#roster.waiting.get(id)
      if (sequence === undefined) continue
      this.#departures.remove(sequence, now, new CllmError('rejected', reason))
    }
    this.#roster.preemptAll(plan.preempt, now)
    await this.#admit(plan, now, false)
  }

  async #admit({ admit }: Plan, now: number, insists: boolean): Promise<void> {
    const failed = await this.#roster.admitAll(admit, now, this.#departures, insists)
    for (const [sequence, error] of failed) this.#departures.mark(sequence, error)
    this.#departures.takeOut(now)
  }

  /** Takes in a step's tokens and frees what ended with them, so that the next plan can use it. */
  #append(step: Step, outcome: StepOutcome): void {
    const now = this.clock.now()
    this.#counters.stepped(step, outcome, now)
    this.#seat.observeStep(step.parts, step.startedAt, now, outcome.isWhole)
    this.#roster.slots.costs.stepped(step.parts, outcome.isWhole ? now - step.startedAt : undefined)
    for (const [index, { sequence, tokens: count }] of step.parts.entries()) {
      const outputs = outcome.outputs[index] ?? []
      if (CllmError.isInstance(outputs)) {
        this.#departures.mark(sequence, outputs)
        continue
      }
      this.#roster.advance(sequence, count)
      const output = outputs.at(-1)
      // A token drawn before a stop text was noticed, or for a client that left, is discarded.
      if (output === undefined || this.#departures.has(sequence)) continue
      this.#take(sequence, output, now)
    }
  }

  #take(sequence: Sequence, { token, logprobs }: StepOutput, now: number): void {
    sequence.state = 'decoding'
    sequence.firstTokenAt ??= now
    sequence.lastTokenAt = now
    this.#outbox.drew(sequence)
    if (sequence.mayEnd && this.tokenizer.isEndOfGeneration(token)) {
      sequence.finish = 'stop'
    } else {
      sequence.append(token, logprobs)
      const isFull = sequence.tokens.length > this.backend.limits.contextSize
      if (isFull || sequence.generatedTokens >= sequence.maxTokens) sequence.finish = 'length'
    }
    if (sequence.finish !== undefined) this.#departures.remove(sequence, now)
  }

  #publish(): void {
    const now = this.clock.now()
    for (const [sequence, error] of this.#outbox.publish(now)) {
      this.journal.ended(sequence, now, error)
      if (sequence.isActive) this.#departures.markSaid(sequence)
    }
    if (this.#isIdle) for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  get #isIdle(): boolean {
    return this.#roster.isIdle && !this.#intake.isReading
  }
}
