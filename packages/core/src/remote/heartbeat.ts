import type { AddressedEvent } from '../contracts/engine/engine-client.js'
import type { EngineObserver } from '../contracts/engine/engine-observer.js'
import type { SequenceView } from '../contracts/scheduling/scheduler-policy.js'
import type { FromEngine } from './channel.js'

/** Milliseconds between two messages about tokenizing. */
const tokenizingMs = 1000

/** Whether a step was computed: requests are taken in and refused without one, too. */
export const areOfStep = (events: readonly AddressedEvent[]): boolean =>
  events.some(({ event }) => ['token', 'progress', 'end'].includes(event.type))

/**
 * Reports progress to the parent when there are no events to send: long texts being tokenized and the
 * request being prepared, which take no forward pass, and steps without tokens.
 */
export class Heartbeat implements EngineObserver {
  #isSilent = false
  #tokenizingAt = -Infinity

  constructor(private readonly send: (message: FromEngine) => void) {}

  onTokenized(now: number): void {
    if (now < this.#tokenizingAt + tokenizingMs) return
    this.#tokenizingAt = now
    this.send({ type: 'tokenizing' })
  }

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
    if (areOfStep(events)) this.#isSilent = false
    this.send({ type: 'events', events })
  }
}
