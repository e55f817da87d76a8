import { inject, injectable } from 'tsyringe'
import type { EngineObserver } from '../../contracts/engine/engine-observer.js'
import type { Logger } from '../../contracts/services.js'
import * as tokens from '../../tokens.js'

type Told<Method extends keyof EngineObserver> = Parameters<Required<EngineObserver>[Method]>

/** The observers of an engine, in the order in which they were added. */
@injectable()
export class EngineObservers {
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

  /** Calls this method of each observer that has it. */
  tell<Method extends keyof EngineObserver>(method: Method, ...told: Told<Method>): void {
    // Frozen: an observer that removes or sorts entries would leave requests without an answer, or with wrong tokens.
    for (const list of told) if (Array.isArray(list)) Object.freeze(list)
    for (const observer of this.#observers) {
      const call = observer[method]
      if (call === undefined) continue
      try {
        const result: unknown = Reflect.apply(call, observer, told)
        // The method is async, against its contract: an unhandled rejection would end the process.
        if (result instanceof Promise) result.catch((error: unknown) => this.#log(observer, error))
      } catch (error) {
        this.#log(observer, error)
      }
    }
  }

  #log(observer: EngineObserver, error: unknown): void {
    if (this.#failed.has(observer)) return
    this.#failed.add(observer)
    // A plug-in is named by the error; an observer that an application added is recognised by its methods.
    const fields = { methods: Object.keys(observer), err: error }
    this.logger.error(fields, 'an engine observer failed; it is still called, and not logged again')
  }
}
