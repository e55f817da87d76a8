import { inject, injectable } from 'tsyringe'
import type { Clock, LearnedStore, Learner, Logger } from '../../contracts/services.js'
import type { Backend } from '../../contracts/model/backend.js'
import { synchronous } from '../../plugin/checks.js'
import * as tokens from '../../tokens.js'
import type { LoopWork } from '../loop/between-steps.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { Speculator } from '../speculation/speculator.js'
import { ENGINE_COSTS, type EngineCosts } from './engine-costs.js'

/** The interval in milliseconds at which what was learned is saved. */
const betweenMs = 60_000

/**
 * Gives the learning parts of an engine what they learned in the process before, and saves what they learn: once a
 * minute, under load too, and at the end.
 */
@injectable()
export class Learning implements LoopWork {
  readonly #parts: Readonly<Record<string, Learner>>
  #kept = ''
  #keeping = Promise.resolve()
  #stop = (): void => {}

  constructor(
    @inject(tokens.LEARNED_STORE) private readonly store: LearnedStore,
    @inject(tokens.CLOCK) private readonly clock: Clock,
    @inject(tokens.LOGGER) private readonly logger: Logger,
    @inject(tokens.BACKEND) backend: Backend,
    @inject(PolicyRunner) { policy }: PolicyRunner,
    @inject(ENGINE_COSTS) { steps }: EngineCosts,
    @inject(Speculator) drafts: Speculator,
  ) {
    this.#parts = { backend, policy, steps, drafts }
  }

  /** Gives each part what it had learned. */
  recall(): void {
    const known: object = Object(this.store.known)
    for (const [name, learned] of Object.entries(known)) {
      if (Object.hasOwn(this.#parts, name))
        this.#attempt(name, (part) => synchronous(part.recall?.(learned), 'recall'))
    }
    // Saved again only if something was added: drafts reduce what they recall, so their text differs from the saved one.
    this.#kept = this.#text()
    this.#keepLater()
  }

  #keepLater(): void {
    this.#stop = this.clock.at(this.clock.now() + betweenMs, () => {
      // No request waits for the write.
      void this.onClose()
      this.#keepLater()
    })
  }

  async onClose(): Promise<void> {
    this.#stop()
    const text = this.#text()
    // Writes follow each other, and the end waits for them, as the process may end next.
    if (text !== this.#kept) {
      this.#keeping = this.#keeping.then(() => this.store.keep(JSON.parse(text)))
    }
    this.#kept = text
    await this.#keeping
  }

  #text(): string {
    const learned: Record<string, unknown> = {}
    for (const name of Object.keys(this.#parts)) {
      // What a plug-in learned may not be JSON: the other parts are saved all the same.
      const json = this.#attempt(name, (part) =>
        JSON.stringify(synchronous(part.learned?.(), 'learned')),
      )
      if (json !== undefined) learned[name] = JSON.parse(json)
    }
    return JSON.stringify(learned)
  }

  #attempt<T>(name: string, call: (part: Learner) => T): T | undefined {
    try {
      return call(this.#parts[name]!)
    } catch (error) {
      this.logger.debug({ part: name, err: error }, 'what was learned does not fit')
      return undefined
    }
  }
}
