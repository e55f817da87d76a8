import { once, setMaxListeners } from 'node:events'
import { type Clock, isOfBatch } from '@cllm/core'
import {
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
  unwatched,
} from '../../routes/koa-context.js'

/** Decides when lines of batches may be computed. */
export interface Throttle {
  /** Resolves once lines may be computed; rejects when the signal fires. */
  released(signal: AbortSignal): Promise<void>
  /** Calls back when lines may no longer be computed, until the returned function is called. */
  onThrottled(callback: () => void): () => void
}

/** Never holds lines back, for engines that make room for clients themselves. */
export const unthrottled: Throttle = Object.freeze({
  released: async (signal: AbortSignal) => signal.throwIfAborted(),
  onThrottled: () => () => {},
})

/** The length of a window, in which lines are computed although there are clients. */
const windowMs = 100
/** A due window waits at most this many pauses for clients to get their first tokens. */
const patience = 2

/** The share of batches while there are clients. */
export interface BatchShare {
  readonly clock: Clock
  /** The share of the time; 0: none. */
  readonly share: number
}

/** Whether lines may be computed, and until when. */
type State =
  /** Lines may be computed, as there are no clients. */
  | { readonly is: 'free' }
  /** Lines must wait until a window is due. */
  | { readonly is: 'paused' }
  /** Lines must wait until all clients have their first tokens, but at most {@link patience} pauses. */
  | { readonly is: 'due'; readonly leftMs: number }
  /** Lines may be computed until the window ends or, unless `insists` is set, a client arrives. */
  | {
      readonly is: 'open'
      readonly since: number
      readonly leftMs: number
      readonly insists: boolean
    }

/**
 * Holds lines back while clients have requests other than batches, so that batches delay nobody. If there are always
 * clients, it opens windows for a share of the time, once all clients have their first tokens; a new client ends a
 * window at once. It observes the requests of all protocols.
 */
export class BatchThrottle implements RequestObserver, Throttle {
  #state: State = { is: 'free' }
  /** The number of clients' requests; `#awaiting`: of those without a first token. */
  #clients = 0
  #awaiting = 0
  #cancelTimer = () => {}
  readonly #changes = new EventTarget()
  readonly #clock: Clock
  readonly #pauseMs: number

  constructor({ clock, share }: BatchShare) {
    this.#clock = clock
    // Each waiting line listens, and Node would warn of a leak from eleven listeners on.
    setMaxListeners(0, this.#changes)
    this.#pauseMs = share === 0 ? Infinity : windowMs / share - windowMs
  }

  onSubmit({ request }: Pick<ObservedRequest, 'request'>): RequestWatch {
    if (isOfBatch(request)) return unwatched
    const state = this.#state
    this.#clients++
    this.#awaiting++
    if (state.is === 'free') this.#pause()
    else if (state.is === 'open' && !state.insists) {
      // The window goes on once this client has its first token.
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

  /** Opens a due window of this length, once all clients have their first tokens. */
  #waitForTokens(leftMs: number): void {
    if (this.#awaiting === 0) return this.#open(leftMs, false)
    this.#enter({ is: 'due', leftMs }, patience * this.#pauseMs, () => this.#open(leftMs, true))
  }

  /** @param insists - whether arriving clients do not end the window */
  #open(leftMs: number, insists: boolean): void {
    const since = this.#clock.now()
    this.#enter({ is: 'open', since, leftMs, insists }, leftMs, () => this.#pause())
  }

  /** Enters a state, and calls `next` after `ms`. Lines are notified if they may now be computed, or no longer may. */
  #enter(state: State, ms = Infinity, next = () => {}): void {
    const wasReleased = this.isReleased
    this.#state = state
    this.#cancelTimer()
    if (ms < Infinity) this.#cancelTimer = this.#clock.at(this.#clock.now() + ms, next)
    if (this.isReleased === wasReleased) return
    this.#changes.dispatchEvent(new Event(wasReleased ? 'throttled' : 'released'))
  }
}
