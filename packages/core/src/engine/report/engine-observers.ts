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
  readonly #failed = new WeakSet<EngineObserver>()

  constructor(@inject(tokens.LOGGER) private readonly logger: Logger) {}

  /** Adds observers; returns a function that removes them. */
  add(...observers: readonly EngineObserver[]): () => void {
    this.#observers = [...this.#observers, ...observers]
    return () => {
      this.#observers = this.#observers.filter((observer) => !observers.includes(observer))
    }
  }

  onQueued(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onQueued?.(request, now))
  }

  onTokenized(now: number): void {
    this.#tell((observer) => observer.onTokenized?.(now))
  }

  onRefused(id: string, error: CllmError, now: number): void {
    this.#tell((observer) => observer.onRefused?.(id, error, now))
  }

  onPreparing(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onPreparing?.(request, now))
  }

  onAdmitted(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onAdmitted?.(request, now))
  }

  onPreempted(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onPreempted?.(request, now))
  }

  onHeld(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onHeld?.(request, now))
  }

  onReleased(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onReleased?.(request, now))
  }

  onFinished(request: SequenceView, now: number): void {
    this.#tell((observer) => observer.onFinished?.(request, now))
  }

  onEnded(request: SequenceView, end: RequestEnd, now: number): void {
    this.#tell((observer) => observer.onEnded?.(request, end, now))
  }

  onPlan(plan: Plan, state: SchedulerState): void {
    this.#tell((observer) => observer.onPlan?.(plan, state))
  }

  onStepStart(parts: readonly ComputedPart[], now: number): void {
    this.#tell((observer) => observer.onStepStart?.(parts, now))
  }

  onStep(step: StepRecord): void {
    this.#tell((observer) => observer.onStep?.(step))
  }

  onEvents(events: readonly AddressedEvent[]): void {
    this.#tell((observer) => observer.onEvents?.(events))
  }

  onTurn(durationMs: number, step: StepRecord | undefined): void {
    this.#tell((observer) => observer.onTurn?.(durationMs, step))
  }

  #tell(call: (observer: EngineObserver) => unknown): void {
    for (const observer of this.#observers) {
      try {
        const result = call(observer)
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
