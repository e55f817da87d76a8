import { CllmError } from '@cllm/core'

/** The state of a request that {@link BodyBudget} counts with. */
export interface CountedBody {
  /** Fires when the connection closes: the client left, was disconnected, or has its answer. */
  left: AbortController
  /** Bytes of its body that count towards the limit for all bodies. */
  bodyBytes: number
}

/** Smaller bodies are always accepted: the engine's queue limits the number of requests. */
const smallBytes = 64 * 1024

/**
 * Counts the bytes of the bodies of all requests in progress, up to a limit. The number of waiting
 * requests is limited, too, but a thousand parsed bodies of 1 MiB would still take gigabytes.
 */
export class BodyBudget {
  #bytes = 0

  constructor(private readonly limit: number) {}

  /**
   * Counts bytes of a body as they arrive, until its answer is sent. So a body that never becomes complete
   * counts, too.
   *
   * @throws `queue_full`, or `cancelled` if the client has left, as nothing would release the bytes
   */
  count({ state }: { readonly state: CountedBody }, bytes: number): void {
    if (state.left.signal.aborted) {
      throw new CllmError('cancelled', 'The client left before its body was read')
    }
    if (state.bodyBytes + bytes > smallBytes && this.#bytes + bytes > this.limit) {
      const message = `The bodies of requests in progress have ${this.#bytes} bytes; the limit is ${this.limit}`
      throw new CllmError('queue_full', message, { details: { limit: this.limit } })
    }
    state.bodyBytes += bytes
    this.#bytes += bytes
  }

  /** Subtracts the bytes of a request that is over. */
  release(bytes: number): void {
    this.#bytes -= bytes
  }
}
