import { inject, injectable } from 'tsyringe'
import type { Logger } from '../../contracts/services.js'
import type { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'
import { OutputProcessor } from './output-processor.js'
import { endState } from '../report/counters.js'
import { EngineObservers } from '../report/engine-observers.js'
import { BetweenSteps } from '../loop/between-steps.js'
import { RequestTable } from './request-table.js'
import type { Sequence } from './sequence.js'

/** Ends requests: between two steps, so that nothing is taken from a step that is under way. */
@injectable()
export class RequestFinisher {
  /** Requests that end before the next step, with the error for their client, if any. */
  readonly #pending = new Map<Sequence, CllmError | undefined>()

  constructor(
    @inject(RequestTable) private readonly table: RequestTable,
    @inject(OutputProcessor) private readonly output: OutputProcessor,
    @inject(EngineObservers) private readonly observers: EngineObservers,
    @inject(BetweenSteps) private readonly between: BetweenSteps,
    @inject(tokens.LOGGER) private readonly logger: Logger,
  ) {}

  /** Whether it ends before the next step. */
  has(sequence: Sequence): boolean {
    return this.#pending.has(sequence)
  }

  /** Marks a request to end between this step and the next. The first error is the one that counts. */
  mark(sequence: Sequence, error?: CllmError): void {
    if (!this.#pending.has(sequence)) this.#pending.set(sequence, error)
    this.between.notify()
  }

  /** Ends what is marked or timed out. */
  settle(now: number): void {
    for (const [sequence, error] of this.table.due(now)) this.mark(sequence, error)
    if (this.#pending.size === 0) return
    for (const [sequence, error] of this.#pending) this.finish(sequence, now, error)
    this.#pending.clear()
  }

  /** Ends a request: its slot is free. */
  finish(sequence: Sequence, now: number, error?: CllmError): void {
    if (!sequence.isActive) return
    this.table.remove(sequence, endState(error), now)
    if (error === undefined) return
    this.output.fail(sequence, error, now)
    this.#ended(sequence, now, error)
  }

  /** The last event of a request is published: a pending cancel or timeout has no effect any more. */
  onPublished(sequence: Sequence, now: number, error?: CllmError): void {
    this.#ended(sequence, now, error)
    if (!sequence.isActive) return
    this.#pending.set(sequence, undefined)
    this.between.notify()
  }

  /** Ends all requests. */
  failAll(error: CllmError, now: number): void {
    this.logger.error({ code: error.code, err: error.cause ?? error }, error.message)
    // The last event of some was published already.
    this.settle(now)
    for (const sequence of this.table.all()) this.finish(sequence, now, error)
  }

  #ended(sequence: Sequence, now: number, error?: CllmError): void {
    const end = { ...sequence.account(now), state: endState(error), error }
    this.observers.tell('onEnded', sequence, end, now)
  }
}
