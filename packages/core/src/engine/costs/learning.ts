import { inject, injectable } from 'tsyringe'
import type { Clock, LearnedStore, Learner, Logger } from '../../contracts/services.js'
import type { Backend } from '../../contracts/model/backend.js'
import * as tokens from '../../tokens.js'
import type { LoopWork } from '../loop/between-steps.js'
import { PolicyRunner } from '../loop/policy-runner.js'
import { Speculator } from '../speculation/speculator.js'
import { ENGINE_COSTS, type EngineCosts } from './engine-costs.js'

/** Milliseconds between two times that what was learned is kept, at least. */
const betweenMs = 60_000

/**
 * Lets the parts of an engine that learn begin where those of the process before ended, and keeps what they
 * have learned: while there is nothing to compute, and at the end.
 */
@injectable()
export class Learning implements LoopWork {
  readonly #parts: Readonly<Record<string, Learner>>
  #kept = ''
  #next: number

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
    this.#next = clock.now() + betweenMs
  }

  /** Gives each part what it had learned. */
  recall(): void {
    const known: object = Object(this.store.known)
    for (const [name, learned] of Object.entries(known)) {
      if (Object.hasOwn(this.#parts, name)) this.#attempt(name, (part) => part.recall?.(learned))
    }
    // Only what is added to it is kept: drafts believe a share of what they recall.
    this.#kept = this.#text()
  }

  async onIdle(): Promise<number | undefined> {
    const now = this.clock.now()
    if (now < this.#next) return this.#next
    this.#next = now + betweenMs
    // No request waits for it.
    void this.onClose()
    return undefined
  }

  async onClose(): Promise<void> {
    const text = this.#text()
    if (text === this.#kept) return
    this.#kept = text
    await this.store.keep(JSON.parse(text))
  }

  #text(): string {
    const learned: Record<string, unknown> = {}
    for (const name of Object.keys(this.#parts)) {
      learned[name] = this.#attempt(name, (part) => part.learned?.())
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
