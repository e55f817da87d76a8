import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import type { Clock } from '@cllm/core'
import { type RequestObserver, type RequestWatch, unwatched } from '../../routes/koa-context.js'

/** Set while a batch's line submits its request. */
export const batchScope = new AsyncLocalStorage<true>()

/** Says when lines of batches may be computed. */
export interface Throttle {
  /** Resolves when lines may be computed; rejects when the signal fires. */
  released(signal: AbortSignal): Promise<void>
  /** Calls back when they may not any more, until the returned function is called. */
  onThrottled(callback: () => void): () => void
}

/** Never holds lines back: whoever computes one makes room for clients. */
export const unthrottled: Throttle = Object.freeze({
  released: async (signal: AbortSignal) => signal.throwIfAborted(),
  onThrottled: () => () => {},
})

/** How long lines are computed at a time while clients wait. */
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
 * Holds lines back while a client waits for anything but batches: otherwise whatever a batch computes delays
 * nobody. Where clients never stop, it opens a window for a share of the time, when all of them have their
 * first tokens; a new one ends it at once. It watches the requests of all protocols.
 */
export class BatchThrottle implements RequestObserver, Throttle {
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
  readonly #clock: Clock
  readonly #pauseMs: number

  constructor({ clock, share }: BatchShare) {
    this.#clock = clock
    this.#pauseMs = share === 0 ? Infinity : windowMs / share - windowMs
  }

  onSubmit(): RequestWatch {
    if (batchScope.getStore() === true) return unwatched
    this.#awaiting++
    if (this.#others++ === 0) {
      this.#tell('throttled')
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
        this.#tell('released')
      },
    }
  }

  /** Whether lines may be computed now. */
  get isReleased(): boolean {
    return this.#others === 0 || this.#openedAt !== undefined
  }

  async released(signal: AbortSignal): Promise<void> {
    while (!this.isReleased) await once(this.#changes, 'released', { signal })
    signal.throwIfAborted()
  }

  onThrottled(callback: () => void): () => void {
    this.#changes.addEventListener('throttled', callback, { once: true })
    return () => this.#changes.removeEventListener('throttled', callback)
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
    if (this.#leftMs <= 0 || this.#openedAt !== undefined) return
    if (this.#awaiting > 0 && !this.#insists) return
    this.#openedAt = this.#clock.now()
    this.#timer(this.#leftMs, () => {
      this.#tell('throttled')
      this.#pause()
    })
    this.#tell('released')
  }

  /** A window that a client interrupts goes on when that one has its first token. */
  #interrupt(): void {
    if (this.#openedAt === undefined) return
    this.#leftMs -= this.#clock.now() - this.#openedAt
    this.#openedAt = undefined
    this.#cancelTimer()
    this.#tell('throttled')
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
    if (ms === Infinity) return
    this.#cancelTimer = this.#clock.at(this.#clock.now() + ms, callback)
  }

  #tell(what: 'released' | 'throttled'): void {
    this.#changes.dispatchEvent(new Event(what))
  }
}
