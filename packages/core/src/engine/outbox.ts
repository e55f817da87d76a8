import type { AddressedEvent } from '../contracts/engine-client.js'
import { CllmError } from '../errors/cllm-error.js'
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
    const { id, preemptions } = sequence
    const done = { usage: sequence.usage(), preemptions }
    this.#events.push({ id, event: { type: 'error', error: error.serialize(), ...done } })
  }

  /** Whether events of this id are still to be said. */
  owes(id: string): boolean {
    return (
      this.#fresh.some((sequence) => sequence.id === id) || this.#events.some((e) => e.id === id)
    )
  }

  /**
   * Turns the drawn tokens into text and gives all events to the listener in one call. Returns the
   * sequences that have had their last event, with the error of those whose text could not be made.
   */
  publish(now: number): Map<Sequence, CllmError | undefined> {
    const ended = new Map<Sequence, CllmError | undefined>()
    const fresh = this.#fresh
    this.#fresh = []
    for (const sequence of fresh) {
      // One that failed after it drew this token has its last event already.
      if (!sequence.isActive && sequence.state !== 'done') continue
      try {
        for (const event of speak(sequence, now)) {
          this.#events.push({ id: sequence.id, event })
          if (event.type === 'end') ended.set(sequence, undefined)
        }
      } catch (error) {
        ended.set(sequence, CllmError.from(error))
        this.failed(sequence, CllmError.from(error))
      }
    }
    const events = this.#events
    this.#events = []
    if (events.length > 0) this.listener(events)
    return ended
  }
}
