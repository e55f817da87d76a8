import { AsyncLocalStorage } from 'node:async_hooks'
import { once, setMaxListeners } from 'node:events'
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

/** Whether lines may be computed, and what ends that. */
type State =
  /** They may: there is no client. */
  | { readonly is: 'free' }
  /** They may not, until a window is due. */
  | { readonly is: 'paused' }
  /** They may not, until all clients have their first tokens, or it was waited for long enough. */
  | { readonly is: 'due'; readonly leftMs: number }
  /** They may, until that time is over or, unless it insists, a client comes. */
  | {
      readonly is: 'open'
      readonly since: number
      readonly leftMs: number
      readonly insists: boolean
    }

/**
 * Holds lines back while a client waits for anything but batches: otherwise whatever a batch computes delays
 * nobody. Where clients never stop, it opens a window for a share of the time, when all of them have their
 * first tokens; a new one ends it at once. It watches the requests of all protocols.
 */
export class BatchThrottle implements RequestObserver, Throttle {
  #state: State = { is: 'free' }
  /** Requests of clients, and those of them without a first token. */
  #clients = 0
  #awaiting = 0
  #cancelTimer = () => {}
  readonly #changes = new EventTarget()
  readonly #clock: Clock
  readonly #pauseMs: number

  constructor({ clock, share }: BatchShare) {
    this.#clock = clock
    // Node warns of a leak where more than ten listen: each line that waits does.
    setMaxListeners(0, this.#changes)
    this.#pauseMs = share === 0 ? Infinity : windowMs / share - windowMs
  }

  onSubmit(): RequestWatch {
    if (batchScope.getStore() === true) return unwatched
    const state = this.#state
    this.#clients++
    this.#awaiting++
    if (state.is === 'free') this.#pause()
    else if (state.is === 'open' && !state.insists) {
      // It goes on when this client has its first token.
      const leftMs = state.leftMs - (this.#clock.now() - state.since)
      if (leftMs > 0) this.#waitForTokens(leftMs)
      else this.#pause()
    }
    let isAnswered = false
    const answered = () => {
      if (isAnswered) return
      isAnswered = true
      this.#awaiting--
      if (this.#state.is === 'due' && this.#awaiting === 0) this.#open(this.#state.leftMs, false)
    }
    return {
      onEvent: ({ type }) => void (type === 'token' && answered()),
      onEnd: () => {
        answered()
        if (--this.#clients === 0) this.#enter({ is: 'free' })
      },
    }
  }

  /** Whether lines may be computed now. */
  get isReleased(): boolean {
    return this.#state.is === 'free' || this.#state.is === 'open'
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
    this.#enter({ is: 'paused' }, this.#pauseMs, () => this.#waitForTokens(windowMs))
  }

  /** A window of this length is due. */
  #waitForTokens(leftMs: number): void {
    if (this.#awaiting === 0) return this.#open(leftMs, false)
    this.#enter({ is: 'due', leftMs }, patience * this.#pauseMs, () => this.#open(leftMs, true))
  }

  /** @param insists - whether clients that come do not end it */
  #open(leftMs: number, insists: boolean): void {
    const since = this.#clock.now()
    this.#enter({ is: 'open', since, leftMs, insists }, leftMs, () => this.#pause())
  }

  /** Lines are told where they may be computed now, or may not any more; after so long `next` comes. */
  #enter(state: State, ms = Infinity, next = () => {}): void {
    const wasReleased = this.isReleased
    this.#state = state
    this.#cancelTimer()
    if (ms < Infinity) this.#cancelTimer = this.#clock.at(this.#clock.now() + ms, next)
    if (this.isReleased === wasReleased) return
    this.#changes.dispatchEvent(new Event(wasReleased ? 'throttled' : 'released'))
  }
}
