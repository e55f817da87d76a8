import { inject, injectable } from 'tsyringe'
import type { AddressedEvent } from '../../contracts/engine/engine-client.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import type { Logger } from '../../contracts/logger.js'
import type {
  ComputedPart,
  Plan,
  SchedulerState,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'
import type { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'

/** Calls every observer of an engine, in the order in which they were added. */
@injectable()
export class EngineObservers implements Required<EngineObserver> {
  #observers: readonly EngineObserver[] = []
  /** Those that have a method, by its name: some are called several times a step. */
  #listening: Partial<Record<keyof EngineObserver, readonly EngineObserver[]>> = {}
  readonly #failed = new WeakSet<EngineObserver>()

  constructor(@inject(tokens.LOGGER) private readonly logger: Logger) {}

  /** Adds observers; returns a function that removes them. */
  add(...observers: readonly EngineObserver[]): () => void {
    this.#set([...this.#observers, ...observers])
    return () => this.#set(this.#observers.filter((observer) => !observers.includes(observer)))
  }

  #set(observers: readonly EngineObserver[]): void {
    this.#observers = observers
    this.#listening = {}
  }

  onQueued(request: SequenceView, now: number): void {
    this.#tell('onQueued', (observer) => observer.onQueued(request, now))
  }

  onTokenized(now: number): void {
    this.#tell('onTokenized', (observer) => observer.onTokenized(now))
  }

  onRefused(id: string, error: CllmError, now: number): void {
    this.#tell('onRefused', (observer) => observer.onRefused(id, error, now))
  }

  onPreparing(request: SequenceView, now: number): void {
    this.#tell('onPreparing', (observer) => observer.onPreparing(request, now))
  }

  onAdmitted(request: SequenceView, now: number): void {
    this.#tell('onAdmitted', (observer) => observer.onAdmitted(request, now))
  }

  onPreempted(request: SequenceView, now: number): void {
    this.#tell('onPreempted', (observer) => observer.onPreempted(request, now))
  }

  onHeld(request: SequenceView, now: number): void {
    this.#tell('onHeld', (observer) => observer.onHeld(request, now))
  }

  onReleased(request: SequenceView, now: number): void {
    this.#tell('onReleased', (observer) => observer.onReleased(request, now))
  }

  onFinished(request: SequenceView, now: number): void {
    this.#tell('onFinished', (observer) => observer.onFinished(request, now))
  }

  onEnded(request: SequenceView, end: RequestEnd, now: number): void {
    this.#tell('onEnded', (observer) => observer.onEnded(request, end, now))
  }

  onPlan(plan: Plan, state: SchedulerState): void {
    this.#tell('onPlan', (observer) => observer.onPlan(plan, state))
  }

  onStepStart(parts: readonly ComputedPart[], now: number): void {
    this.#tell('onStepStart', (observer) => observer.onStepStart(parts, now))
  }

  onStep(step: StepRecord): void {
    this.#tell('onStep', (observer) => observer.onStep(step))
  }

  onEvents(events: readonly AddressedEvent[]): void {
    this.#tell('onEvents', (observer) => observer.onEvents(events))
  }

  onTurn(durationMs: number, step: StepRecord | undefined): void {
    this.#tell('onTurn', (observer) => observer.onTurn(durationMs, step))
  }

  #tell<Method extends keyof EngineObserver>(
    method: Method,
    call: (observer: Pick<Required<EngineObserver>, Method>) => unknown,
  ): void {
    const having = () => this.#observers.filter((observer) => observer[method] !== undefined)
    for (const observer of (this.#listening[method] ??= having())) {
      try {
        const result = call(observer as Pick<Required<EngineObserver>, Method>)
        // A method that is async after all: its rejection would end the process.
        if (result instanceof Promise) result.catch((error: unknown) => this.#log(observer, error))
      } catch (error) {
        this.#log(observer, error)
      }
    }
  }

  #log(observer: EngineObserver, error: unknown): void {
    if (this.#failed.has(observer)) return
    this.#failed.add(observer)
    const fields = { methods: Object.keys(observer), err: error }
    this.logger.error(fields, 'an engine observer failed; it is still called, and not logged again')
  }
}
