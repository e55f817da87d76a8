import type { AddressedEvent } from '../contracts/engine/engine-client.js'
import type { EngineObserver } from '../contracts/engine/engine-observer.js'
import type { SequenceView } from '../contracts/scheduling/scheduler-policy.js'
import type { FromEngine } from './channel.js'

/**
 * Reports progress to the parent when there are no events to send: the request being prepared, which
 * takes no forward pass, and steps without events.
 */
export class Heartbeat implements EngineObserver {
  #isSilent = false

  constructor(private readonly send: (message: FromEngine) => void) {}

  onPreparing({ id }: SequenceView): void {
    this.send({ type: 'preparing', id })
  }

  onAdmitted({ id }: SequenceView): void {
    this.send({ type: 'prepared', id })
  }

  onStepStart(): void {
    if (this.#isSilent) this.send({ type: 'step' })
    this.#isSilent = true
  }

  onEvents(events: readonly AddressedEvent[]): void {
    this.#isSilent = false
    this.send({ type: 'events', events })
  }
}
