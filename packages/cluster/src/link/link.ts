import type { Channel } from '@cllm/host'
import { type Clock, attempt } from '@cllm/core'
import { type Envelope, mostCharacters, writeEnvelope } from './envelope.js'

/** A channel between a front and a worker, with an id that is unique among the channels of the two. */
export interface NamedChannel<Out, In> extends Channel<Out, In> {
  readonly id: string
  /** Sends a message; false: it is too large, and was not sent. */
  send(message: Out): boolean
  /** Closes the channel on both sides. */
  close(reason: string): void
}

/** Times of a link, in milliseconds. */
export interface LinkTimes {
  /** The interval of heartbeats, which are sent if there are no other messages. Default 500. */
  readonly heartbeatMs: number
  /** The silence after which the other side counts as dead. Default 2,000. */
  readonly silenceMs: number
}

/** The defaults of {@link LinkTimes}. */
export const defaultLinkTimes: LinkTimes = Object.freeze({ heartbeatMs: 500, silenceMs: 2000 })

/** The parts of a {@link Link}. */
export interface LinkParts {
  readonly id: string
  readonly clock: Clock
  readonly times: LinkTimes
  /** Sends an envelope to the other side. */
  readonly send: (envelope: string) => void
  /** Whether the bus answers: while it does not, silence of the other side does not count. */
  readonly isReachable: () => boolean
  /** Called when the link is closed, by either side or for the other one's silence; no more envelopes are for it. */
  readonly onEnd?: (isSilent: boolean) => void
}

/** The common part of all channels' ends: the listeners, and whether it is closed. */
export abstract class LinkEnd<In> {
  /** The reason why it was closed; undefined while it is open. */
  protected closed: string | undefined
  /** Calls the listener with a message. */
  protected tell: (message: In) => void = () => {}
  #onClose: (reason: string) => void = () => {}

  /** Sets the listener of messages. */
  onMessage(listener: (message: In) => void): void {
    this.tell = listener
  }

  /** Sets the listener of the end, and calls it at once if the channel is already closed. */
  onClose(listener: (reason: string) => void): void {
    this.#onClose = listener
    if (this.closed !== undefined) listener(this.closed)
  }

  /** Marks it as closed, and calls the listener. */
  protected tellClosed(reason: string): void {
    this.closed = reason
    this.#onClose(reason)
  }
}

/**
 * A channel between a front and a worker over a bus that may lose, repeat or swap envelopes: each message is
 * delivered once and in order, or the channel closes. Both ends notice when the other one is silent.
 */
export class Link<Out, In> extends LinkEnd<In> implements NamedChannel<Out, In> {
  #sent = 0
  #received = 0
  #sentAt: number
  #heardAt: number
  #cancelTimer: () => void = () => {}

  constructor(private readonly parts: LinkParts) {
    super()
    this.#sentAt = this.#heardAt = parts.clock.now()
    this.#watch()
  }

  get id(): string {
    return this.parts.id
  }

  send(message: Out): boolean {
    return this.closed !== undefined || this.#sendEnvelope(message)
  }

  /** Takes an envelope of this link. */
  receive({ number, message }: Envelope<In>): void {
    if (this.closed !== undefined || (number !== 0 && number <= this.#received)) return
    this.#heardAt = this.parts.clock.now()
    if (number === 0) return this.#end('the other side closed it')
    if (number > this.#received + 1) return this.close('a message was lost')
    this.#received = number
    if (message !== undefined) this.tell(message)
  }

  /**
   * Closes the link on both sides.
   *
   * @param isSilent - whether the other side counts as dead; default false
   */
  close(reason: string, isSilent = false): void {
    if (this.closed !== undefined) return
    this.parts.send(writeEnvelope(this.id, 0))
    this.#end(reason, isSilent)
  }

  #end(reason: string, isSilent = false): void {
    this.closed = reason
    this.#cancelTimer()
    this.parts.onEnd?.(isSilent)
    this.tellClosed(reason)
  }

  #sendEnvelope(message?: Out): boolean {
    // Undefined if the message is nested too deep, or its text would be too long.
    const envelope = attempt(() => writeEnvelope(this.id, this.#sent + 1, message))
    if (envelope === undefined || envelope.length > mostCharacters) return false
    this.#sent++
    this.#sentAt = this.parts.clock.now()
    this.parts.send(envelope)
    return true
  }

  #watch(): void {
    const { clock, times } = this.parts
    const { heartbeatMs, silenceMs } = times
    const everyMs = Math.min(heartbeatMs, silenceMs) / 4
    const due = clock.now() + everyMs
    this.#cancelTimer = clock.at(due, () => {
      const now = clock.now()
      // If this check ran late, this process was busy and envelopes may still be unread.
      if (now - due > silenceMs / 4 || !this.parts.isReachable()) this.#heardAt = now
      if (now - this.#heardAt >= silenceMs) {
        return this.close(`it was silent for ${silenceMs} ms`, true)
      }
      if (now - this.#sentAt >= heartbeatMs) this.#sendEnvelope()
      this.#watch()
    })
  }
}
