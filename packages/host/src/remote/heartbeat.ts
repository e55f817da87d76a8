import type { AddressedEvent, EngineObserver, SequenceView } from '@cllm/core'
import type { FromEngine } from './channel.js'

/** Milliseconds between two messages about tokenizing. */
const tokenizingMs = 1000

/** Whether a step was computed: requests are taken in and refused without one, too. */
const areOfStep = (events: readonly AddressedEvent[]): boolean =>
  events.some(({ event }) => ['token', 'progress', 'end'].includes(event.type))

/**
 * Reports progress to the parent when there are no events to send: long texts being tokenized and the
 * request being prepared, which take no forward pass, and steps without tokens.
 */
export class Heartbeat implements EngineObserver {
  #isSilent = false
  #tokenizingAt = -Infinity

  /**
   * @param send sends a message to the parent
   * @param fingerprint what requests are told at their start, where it is known
   */
  constructor(
    private readonly send: (message: FromEngine) => void,
    private readonly fingerprint?: string,
  ) {}

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
    this.send({ type: 'events', events: this.#withFingerprint(events) })
  }

  /** The events of a step, which are many, begin with no start. */
  #withFingerprint(events: readonly AddressedEvent[]): readonly AddressedEvent[] {
    const { fingerprint } = this
    if (fingerprint === undefined || events[0]?.event.type !== 'start') return events
    return events.map(({ id, event }) =>
      event.type === 'start' ? { id, event: { ...event, fingerprint } } : { id, event },
    )
  }
}
