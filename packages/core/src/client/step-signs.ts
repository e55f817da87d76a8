import type { AddressedEvent } from '../contracts/engine-client.js'
import type { StepPart } from '../engine/run-step.js'
import type { FromEngine } from './channel.js'

/** Signs of life of an engine whose steps make no events, and of whom it computes. */
export class StepSigns {
  /** Requests that were named. */
  readonly #named = new Set<string>()
  #isSilent = false

  constructor(private readonly send: (message: FromEngine) => void) {}

  /** A step is about to be computed. */
  stepping(parts: readonly StepPart[]): void {
    const admitted: string[] = []
    for (const { sequence } of parts) {
      if (this.#named.has(sequence.id)) continue
      this.#named.add(sequence.id)
      admitted.push(sequence.id)
    }
    if (this.#isSilent || admitted.length > 0) this.send({ type: 'step', admitted })
    this.#isSilent = true
  }

  /** Events are about to be sent. */
  told(events: readonly AddressedEvent[]): void {
    this.#isSilent = false
    for (const { id, event } of events) {
      if (event.type === 'end' || event.type === 'error') this.#named.delete(id)
    }
  }
}
