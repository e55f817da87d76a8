import type { Channel } from '@cllm/host'
import { type Clock, attempt } from '@cllm/core'
import { type Envelope, mostCharacters, writeEnvelope } from './envelope.js'

/** A channel between a front and a worker, with a name that no other one of the two has. */
export interface NamedChannel<Out, In> extends Channel<Out, In> {
  readonly id: string
  /** False: it is too large, and was not sent. */
  send(message: Out): boolean
  /** Closes it on both sides. */
  close(reason: string): void
}

/** Times of a link, in milliseconds. */
export interface LinkTimes {
  /** Without a message for so long, a sign of life is sent. Default 500. */
  readonly heartbeatMs: number
  /** Without any from the other side for so long, it is taken for dead. Default 2,000. */
  readonly silenceMs: number
}

/** The defaults of {@link LinkTimes}. */
export const defaultLinkTimes: LinkTimes = Object.freeze({ heartbeatMs: 500, silenceMs: 2000 })

/** What a link is made of. */
export interface LinkParts {
  readonly id: string
  readonly clock: Clock
  readonly times: LinkTimes
  /** Sends an envelope to the other side. */
  readonly send: (envelope: string) => void
  /** Whether the bus answers: while it does not, the other side may be silent. */
  readonly isReachable: () => boolean
  /** It is closed, by either side or as the other one is silent: no envelope is for it any more. */
  readonly onEnd?: (isSilent: boolean) => void
}

/** What is the same at the ends of all links: whom they tell, and whether they are closed. */
export abstract class LinkEnd<In> {
  /** Why; undefined while it is open. */
  protected closed: string | undefined
  /** Hands a message to the listener. */
  protected tell: (message: In) => void = () => {}
  #onClose: (reason: string) => void = () => {}

  /** Sets the listener of messages. */
  onMessage(listener: (message: In) => void): void {
    this.tell = listener
  }

  /** Sets the listener of the end, and tells it at once if that has come. */
  onClose(listener: (reason: string) => void): void {
    this.#onClose = listener
    if (this.closed !== undefined) listener(this.closed)
  }

  /** It is closed from now on. */
  protected tellClosed(reason: string): void {
    this.closed = reason
    this.#onClose(reason)
  }
}

/**
 * A channel between a front and a worker over a bus that may lose, repeat or swap envelopes: each message is
 * handed over once and in order, or the channel closes. Both ends notice when the other one is silent.
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

  /** An envelope of this link came. */
  receive({ number, message }: Envelope<In>): void {
    if (this.closed !== undefined || (number !== 0 && number <= this.#received)) return
    this.#heardAt = this.parts.clock.now()
    if (number === 0) return this.#end('the other side closed it')
    if (number > this.#received + 1) return this.close('a message was lost')
    this.#received = number
    if (message !== undefined) this.tell(message)
  }

  /**
   * Closes it on both sides.
   *
   * @param isSilent - whether the other side is taken for dead; default false
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
    // None: it is nested too deep, or longer than texts may be.
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
      const isLate = now - due > silenceMs / 4
      if (isLate || !this.parts.isReachable()) this.#heardAt = now
      if (now - this.#heardAt >= silenceMs) {
        return this.close(`it was silent for ${silenceMs} ms`, true)
      }
      if (now - this.#sentAt >= heartbeatMs) this.#sendEnvelope()
      this.#watch()
    })
  }
}
