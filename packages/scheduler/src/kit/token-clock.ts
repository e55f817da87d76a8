import { type SchedulerEvent, type SequenceView, entryOf } from '@cllm/core'

/**
 * Time in tokens computed: it runs as fast as the machine, stops while nothing is computed, and is
 * the same in every repetition.
 */
export class TokenClock {
  #now = 0
  readonly #cameAt = new WeakMap<SequenceView, number>()

  /** Tokens computed so far, of all requests. */
  get now(): number {
    return this.#now
  }

  /** The time at which a request arrived, or was first seen. */
  cameAt(request: SequenceView): number {
    return entryOf(this.#cameAt, request, () => this.#now)
  }

  /** Tokens computed since a request arrived. */
  age(request: SequenceView): number {
    return this.#now - this.cameAt(request)
  }

  /** Counts the tokens of a step. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'step') for (const { tokens } of event.parts) this.#now += tokens
    else this.cameAt(event.request)
  }
}
