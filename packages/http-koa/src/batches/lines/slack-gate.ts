import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import type { RequestObserver, RequestWatch } from '../../engines/request-observer.js'

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

/**
 * Open while no client waits for anything but batches: then whatever a batch computes delays nobody.
 * It watches the requests of all protocols.
 */
export class SlackGate implements RequestObserver, Gate {
  #others = 0
  readonly #changes = new EventTarget()

  onSubmit(): RequestWatch {
    if (lane.getStore() === true) return unwatched
    if (this.#others++ === 0) this.#changes.dispatchEvent(new Event('closed'))
    return {
      onEvent() {},
      onEnd: () => {
        if (--this.#others === 0) this.#changes.dispatchEvent(new Event('opened'))
      },
    }
  }

  get isOpen(): boolean {
    return this.#others === 0
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
}
