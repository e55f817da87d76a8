import type { AddressedEvent } from '../contracts/engine-client.js'
import type { CllmError } from '../errors/cllm-error.js'
import type { Sequence } from './sequence.js'
import { speak } from './speak.js'

/** Takes the events of one step, all requests together. */
export type EventListener = (events: readonly AddressedEvent[]) => void

/** Collects what clients are to hear, and says it once a step. */
export class Outbox {
  listener: EventListener = () => {}
  /** Sequences with tokens that nobody has heard of. */
  #fresh: Sequence[] = []
  #events: AddressedEvent[] = []

  drew(sequence: Sequence): void {
    this.#fresh.push(sequence)
  }

  failed(sequence: Sequence, error: CllmError): void {
    this.#events.push({ id: sequence.id, event: { type: 'error', error: error.serialize() } })
  }

  /**
   * Turns the drawn tokens into text and gives all events to the listener in one call. Returns the
   * sequences that have had their `end`.
   */
  publish(now: number): Sequence[] {
    const ended: Sequence[] = []
    const fresh = this.#fresh
    this.#fresh = []
    for (const sequence of fresh) {
      // One that failed after it drew this token has its last event already.
      if (!sequence.isActive && sequence.state !== 'done') continue
      for (const event of speak(sequence, now)) {
        this.#events.push({ id: sequence.id, event })
        if (event.type === 'end') ended.push(sequence)
      }
    }
    const events = this.#events
    this.#events = []
    if (events.length > 0) this.listener(events)
    return ended
  }
}
