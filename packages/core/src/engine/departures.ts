import type { Logger } from '../contracts/logger.js'
import type { CllmError } from '../errors/cllm-error.js'
import { endState } from './counters.js'
import type { Journal } from './journal.js'
import type { Outbox } from './outbox.js'
import type { Roster } from './roster.js'
import type { Sequence } from './sequence.js'

/** Ends requests: between two steps, so that nothing is taken from a step that is under way. */
export class Departures {
  /** Requests that end before the next step, with the error for their client, if any. */
  readonly #leaving = new Map<Sequence, CllmError | undefined>()

  /** @param notify - called when somebody is marked: a loop that sleeps has work */
  constructor(
    private readonly roster: Roster,
    private readonly outbox: Outbox,
    private readonly journal: Journal,
    private readonly logger: Logger,
    private readonly notify: () => void,
  ) {}

  /** Whether it ends before the next step. */
  has(sequence: Sequence): boolean {
    return this.#leaving.has(sequence)
  }

  /** Marks a request to end between this step and the next. The first error is the one that counts. */
  mark(sequence: Sequence, error?: CllmError): void {
    if (!this.#leaving.has(sequence)) this.#leaving.set(sequence, error)
    this.notify()
  }

  /** Its last event is said, so that what else came for it meanwhile, such as a cancel, is void. */
  markSaid(sequence: Sequence): void {
    this.#leaving.set(sequence, undefined)
    this.notify()
  }

  /** Takes out what is marked or ran out of time. */
  settle(now: number): void {
    for (const [sequence, error] of this.roster.due(now)) this.mark(sequence, error)
    this.takeOut(now)
  }

  /** Takes out what is marked. */
  takeOut(now: number): void {
    for (const [sequence, error] of this.#leaving) this.remove(sequence, now, error)
    this.#leaving.clear()
  }

  /** Ends a request: its slot is free. */
  remove(sequence: Sequence, now: number, error?: CllmError): void {
    if (!sequence.isActive) return
    this.roster.remove(sequence, endState(error), now)
    if (error === undefined) return
    this.outbox.failed(sequence, error)
    this.journal.ended(sequence, now, error)
  }

  /** Ends all requests. */
  failAll(error: CllmError, now: number): void {
    this.logger.error({ code: error.code, cause: error.cause }, error.message)
    for (const sequence of this.roster.all()) this.remove(sequence, now, error)
  }
}
