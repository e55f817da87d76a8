import { inject, injectable } from 'tsyringe'
import type { Backend } from '../contracts/model/backend.js'
import type { Clock } from '../contracts/services.js'
import type { EngineInfo } from '../contracts/engine/engine-client.js'
import type { GenerateRequest } from '../contracts/engine/generate-request.js'
import type { EngineObserver, StepRecord } from '../contracts/engine/engine-observer.js'
import type { EngineStatistics } from '../contracts/engine/engine-statistics.js'
import type { RequestReport } from '../contracts/engine/request-report.js'
import type { SchedulerPolicy } from '../contracts/scheduling/scheduler-policy.js'
import { CllmError, cancelReason, failureOf, shuttingDown } from '../errors/cllm-error.js'
import { isOfPart } from '../plugin/checks.js'
import * as tokens from '../tokens.js'
import { wrong } from './backend-calls.js'
import { FEATURES, type Features } from './engine-parts.js'
import { InputProcessor, type Processed } from './input/input-processor.js'
import { BetweenSteps } from './loop/between-steps.js'
import { type Step, type StepOutcome, type StepPart, recordStep, runStep } from './loop/run-step.js'
import { StepPlanner } from './loop/step-planner.js'
import { OutputProcessor } from './requests/output-processor.js'
import { type PolicyInForce, PolicyRunner } from './loop/policy-runner.js'
import { EngineObservers } from './report/engine-observers.js'
import { EngineReport } from './report/engine-report.js'
import { EncodingSet } from './requests/encoding-set.js'
import { RequestTable } from './requests/request-table.js'

/**
 * Serves requests on one backend: an event-driven loop that plans a step, starts it, and turns the tokens of the
 * previous step into events while the model computes. It sleeps while there is no work.
 */
@injectable()
export class Engine {
  #planWakesAt = Infinity
  #isClosed = false
  readonly #onIdle: (() => void)[] = []
  readonly #done: Promise<void>
  readonly #encodings: EncodingSet

  /** @internal Engines are made by `createEngine`. */
  constructor(
    @inject(tokens.BACKEND) readonly backend: Backend,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(FEATURES) readonly features: Features,
    @inject(InputProcessor) private readonly input: InputProcessor,
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(PolicyRunner) private readonly policy: PolicyRunner,
    @inject(StepPlanner) private readonly planner: StepPlanner,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
    @inject(OutputProcessor) private readonly output: OutputProcessor,
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(EngineReport) private readonly report: EngineReport,
  ) {
    this.#encodings = new EncodingSet(table, between, observers, clock)
    this.#done = this.#run()
    this.#done.catch(() => {}) // `failed` reports the error
  }

  /** Adds an observer, from now on; returns a function that removes it. */
  observe(observer: EngineObserver): () => void {
    return this.observers.add(observer)
  }

  /** Submits a request. Failures, including validation, are reported as its `error` event. */
  submit(id: string, request: GenerateRequest): void {
    const processed = this.input.process(id, request)
    if (!(processed instanceof Promise)) this.#accept(id, processed)
    else void processed.then((late) => this.#accept(id, this.input.settle(id) ?? late))
  }

  /** Ends a request; its slot is free before the next step. Unknown ids are ignored. */
  cancel(id: string, reason = cancelReason): void {
    const error = new CllmError('cancelled', reason)
    if (this.input.cancel(id, error)) return
    const sequence = this.table.find(id)
    if (sequence !== undefined) this.table.mark(sequence, error)
  }

  /** The history of a request that is in flight or among the last that ended. */
  explain(id: string): RequestReport | undefined {
    return this.report.explain(id)
  }

  /** The active policy, and why the fallback took over if it did. */
  scheduler(): PolicyInForce {
    return this.policy
  }

  /** Switches to another policy from the next step on; every current request is announced to it. */
  setPolicy(policy: SchedulerPolicy): void {
    this.policy.replace(policy, this.clock.now())
    this.between.notify()
  }

  /** The model, limits and capabilities. */
  info(): EngineInfo {
    return this.report.info()
  }

  /** Counters since the start, and the current load. */
  statistics(): EngineStatistics {
    return this.report.statistics()
  }

  /**
   * Refuses new requests and resolves when the last one has ended. Inputs for embeddings are still taken, as a client
   * may send its inputs in several calls.
   */
  async drain(): Promise<void> {
    this.input.isOpen = false
    if (this.#isIdle) return
    const idle = new Promise<void>((resolve) => this.#onIdle.push(resolve))
    await Promise.race([idle, this.#done.catch(() => {})])
  }

  /** Ends every request with `shutting_down` and stops after the step that is running. */
  async close(): Promise<void> {
    const error = shuttingDown()
    this.input.close(error)
    this.between.close(error)
    for (const sequence of this.table.all()) this.table.mark(sequence, error)
    this.#isClosed = true
    this.between.notify()
    await this.#done.catch(() => {})
    await this.between.onClose(error)
  }

  /** Resolves with the error when the loop has ended because a part of the engine failed. */
  async failed(): Promise<unknown> {
    return await this.#done.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => error,
    )
  }

  /** Settle, plan, step, append; the tokens of a step are published while the next one is computed. */
  async #loop(): Promise<void> {
    while (!this.#isClosed) {
      const began = this.clock.now()
      this.table.settle(began)
      if (this.between.isDue) await this.between.settle()
      // Clients wait most for a first token: it is published before a step is started, which takes time as well.
      if (this.planner.takesTime || this.output.hasFirst) this.#publish()
      const step = await this.#startStep(began)
      this.#publish()
      const record = step && this.#append(step, await step.outcome)
      this.observers.tell('onTurn', this.clock.now() - began, record)
      if (step !== undefined) continue
      const again = await this.between.onIdle()
      if (again <= this.clock.now()) continue
      await this.between.sleep(Math.min(again, this.#planWakesAt, this.table.wakesAt()))
    }
  }

  /** The loop and its end: however it ends, every request gets an answer. */
  async #run(): Promise<void> {
    try {
      await this.#loop()
      this.table.settle(this.clock.now())
    } catch (error) {
      const failure = CllmError.from(error)
      this.input.close(failure)
      this.between.close(failure)
      this.table.failAll(failure, this.clock.now())
      throw failure
    } finally {
      this.#publish()
    }
  }

  #accept(id: string, processed: Processed): void {
    const now = this.clock.now()
    if ('code' in processed) {
      this.observers.tell('onRefused', id, processed, now)
      this.observers.tell('onEvents', [{ id, event: failureOf(processed) }])
    } else {
      const { promptTokens, request, forecast, encoding } = processed
      this.table.add(processed, now)
      const more = request.forecast && forecast !== undefined ? { forecast } : {}
      const start = [{ id, event: { type: 'start', id, promptTokens, ...more } }] as const
      if (encoding === undefined) this.observers.tell('onEvents', start)
      // A file that cannot be encoded is told of in place of the start.
      else
        void this.#encodings.add(processed, encoding, () => this.observers.tell('onEvents', start))
    }
    this.between.notify()
  }

  /** Plans a step and starts it, if there is anything to compute. */
  async #startStep(now: number): Promise<Step | undefined> {
    this.#planWakesAt = Infinity
    if (this.table.isIdle) this.policy.onIdle(now)
    if (this.#isClosed || this.table.isIdle) return undefined
    try {
      const { parts, wakeAt, mayRest } = await this.planner.next(now)
      if (parts.length > 0) {
        const ready = this.between.beforeStep()
        if (ready !== undefined) await ready
        const startedAt = this.clock.now()
        this.planner.computing = parts
        this.observers.tell('onStepStart', parts, startedAt)
        const outcome = this.between.alone(runStep, this.backend, parts)
        return { parts, startedAt, outcome }
      }
      this.#planWakesAt = wakeAt ?? Infinity
      if (!mayRest) this.between.notify()
    } catch (error) {
      this.table.failAll(CllmError.from(error), now)
    }
    return undefined
  }

  /** Appends the tokens of a step, unless it was interrupted, and frees the slots of requests that end with them. */
  #append(step: Step, outcome: StepOutcome): StepRecord | undefined {
    const { planner } = this
    const isAsked = planner.computing.length === 0
    planner.computing = []
    if (outcome.isInterrupted === true && isAsked) return void planner.interruptedSteps++
    const now = this.clock.now()
    const record = recordStep(step, outcome, now)
    this.observers.tell('onStep', record)
    for (const [index, part] of step.parts.entries()) {
      try {
        this.#appendPart(part, index, outcome, now)
      } catch (error) {
        // The part may be a KV cache, which may then be wrong about all slots.
        if (!CllmError.isInstance(error) || isOfPart(error)) throw error
        // A backend that fails or returns wrong values may have left anything in the slot.
        part.request.isInDoubt = true
        this.table.mark(part.request, error)
      }
    }
    return record
  }

  #appendPart(part: StepPart, index: number, outcome: StepOutcome, now: number): void {
    const { request: sequence } = part
    // Taken for an interruption, such steps would be computed again and again, and keep the whole process busy.
    if (outcome.isInterrupted === true) {
      throw wrong(this.backend, 'step', 'isInterrupted after interrupt() alone', true)
    }
    const outputs = outcome.outputs[index] ?? []
    if ('code' in outputs) throw outputs
    this.table.advance(part, now)
    for (const score of outcome.scores?.[index] ?? []) sequence.promptLogprobs.push(score)
    const isTold = sequence.encoding === undefined
    if (isTold && sequence.request.progress && !part.isDecode) this.output.onProgress(sequence)
    // Tokens sampled before a stop text was noticed, or for a client that has left, are discarded.
    const isLeaving = this.table.isLeaving(sequence)
    for (const output of isLeaving ? [] : outputs) {
      if (sequence.finish !== undefined) break
      this.table.append(sequence, output, now)
    }
    if (part.draft !== undefined) this.table.verify(part, outputs.length, now)
    if (isLeaving) return
    if (outputs.length > 0) this.output.onToken(sequence)
    if (sequence.finish !== undefined) this.table.finish(sequence, now)
  }

  #publish(): void {
    const now = this.clock.now()
    const { events, ended } = this.output.take(now)
    if (events.length > 0) this.observers.tell('onEvents', events)
    for (const [sequence, error] of ended) this.table.onPublished(sequence, now, error)
    if (this.#onIdle.length > 0 && this.#isIdle) for (const told of this.#onIdle.splice(0)) told()
  }

  get #isIdle(): boolean {
    const { table, input, between } = this
    return table.isIdle && table.waiting.total === 0 && !input.isBusy && !between.isBusy
  }
}
