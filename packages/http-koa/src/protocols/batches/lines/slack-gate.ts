import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import type { Clock } from '@cllm/core'
import type { RequestObserver, RequestWatch } from '../../../engines/request-observer.js'

/** Set while a batch's line submits its request. */
const lane = new AsyncLocalStorage<true>()

/** Submits something for a batch. */
export const inLane = <T>(submit: () => T): T => lane.run(true, submit)

const unwatched: RequestWatch = { onEvent() {}, onEnd() {} }

/** Lets lines through while it is open. */
export interface Gate {
  /** Resolves when it is open; rejects when the signal fires. */
  opened(signal: AbortSignal): Promise<void>
  /** Calls back when it closes, until the returned function is called. */
  onClosed(callback: () => void): () => void
}

/** Always open: whoever computes a line makes room for clients. */
export const openGate: Gate = Object.freeze({
  opened: async (signal: AbortSignal) => signal.throwIfAborted(),
  onClosed: () => () => {},
})

/** How long the gate is open at a time while clients wait. */
const windowMs = 100
/** A window that comes due waits this many pauses at most for clients to have their first tokens. */
const patience = 2

/** What batches get while clients wait. */
export interface BatchShare {
  readonly clock: Clock
  /** Of the time; 0: nothing. */
  readonly share: number
}

/**
 * Open while no client waits for anything but batches: then whatever a batch computes delays nobody.
 * Where clients never stop, it opens for a share of the time, when all of them have their first tokens;
 * a new one closes it at once. It watches the requests of all protocols.
 */
export class SlackGate implements RequestObserver, Gate {
  #others = 0
  /** Requests without a first token. */
  #awaiting = 0
  /** When the window that is open was opened. */
  #openedAt: number | undefined
  /** What is left of a window that is due. */
  #leftMs = 0
  #insists = false
  #cancelTimer = () => {}
  readonly #changes = new EventTarget()
  readonly #clock: Clock | undefined
  readonly #pauseMs: number

  constructor({ clock, share }: Partial<BatchShare> = {}) {
    this.#clock = clock
    this.#pauseMs = share === undefined || share === 0 ? Infinity : windowMs / share - windowMs
  }

  onSubmit(): RequestWatch {
    if (lane.getStore() === true) return unwatched
    this.#awaiting++
    if (this.#others++ === 0) {
      this.#tell('closed')
      this.#pause()
    } else if (!this.#insists) this.#interrupt()
    let isAnswered = false
    const answered = () => {
      if (isAnswered) return
      isAnswered = true
      this.#awaiting--
      this.#openWindow()
    }
    return {
      onEvent: ({ type }) => void (type === 'token' && answered()),
      onEnd: () => {
        if (--this.#others > 0) return answered()
        isAnswered = true
        this.#awaiting = 0
        this.#end()
        this.#tell('opened')
      },
    }
  }

  get isOpen(): boolean {
    return this.#others === 0 || this.#openedAt !== undefined
  }

  /** Resolves when it is open; rejects when the signal fires. */
  async opened(signal: AbortSignal): Promise<void> {
    while (!this.isOpen) await once(this.#changes, 'opened', { signal })
    signal.throwIfAborted()
  }

  /** Calls back when it closes, until the returned function is called. */
  onClosed(callback: () => void): () => void {
    this.#changes.addEventListener('closed', callback, { once: true })
    return () => this.#changes.removeEventListener('closed', callback)
  }

  #pause(): void {
    this.#end()
    this.#timer(this.#pauseMs, () => {
      this.#leftMs = windowMs
      this.#insistLater()
      this.#openWindow()
    })
  }

  #insistLater(): void {
    this.#timer(patience * this.#pauseMs, () => {
      this.#insists = true
      this.#openWindow()
    })
  }

  #openWindow(): void {
    if (this.#leftMs <= 0 || this.#openedAt !== undefined || this.#clock === undefined) return
    if (this.#awaiting > 0 && !this.#insists) return
    this.#openedAt = this.#clock.now()
    this.#timer(this.#leftMs, () => {
      this.#tell('closed')
      this.#pause()
    })
    this.#tell('opened')
  }

  /** A window that a client interrupts goes on when that one has its first token. */
  #interrupt(): void {
    if (this.#openedAt === undefined || this.#clock === undefined) return
    this.#leftMs -= this.#clock.now() - this.#openedAt
    this.#openedAt = undefined
    this.#cancelTimer()
    this.#tell('closed')
    if (this.#leftMs <= 0) this.#pause()
    else this.#insistLater()
  }

  #end(): void {
    this.#cancelTimer()
    this.#openedAt = undefined
    this.#leftMs = 0
    this.#insists = false
  }

  #timer(ms: number, callback: () => void): void {
    this.#cancelTimer()
    if (this.#clock === undefined || ms === Infinity) return
    this.#cancelTimer = this.#clock.at(this.#clock.now() + ms, callback)
  }

  #tell(what: 'opened' | 'closed'): void {
    this.#changes.dispatchEvent(new Event(what))
  }
}
