import { CllmError } from '@cllm/core'

/** What is counted of a request. */
export interface CountedBody {
  /** Fires when the connection closes: the client left, was cut off, or has its answer. */
  left: AbortController
  /** Bytes of its body that count towards the limit for all bodies. */
  bodyBytes: number
}

/** Smaller bodies are always accepted: the engine's queue limits the number of requests. */
const smallBytes = 64 * 1024

/**
 * Counts the bytes of the bodies of all requests in progress, up to a limit. The number of waiting
 * requests is limited, but a thousand bodies of 1 MiB, parsed, would still be gigabytes.
 */
export class BodyBudget {
  #bytes = 0

  constructor(private readonly limit: number) {}

  /**
   * Counts bytes of a body as they come, until its answer is sent, so that those are counted, too, whose
   * ends never come.
   *
   * @throws `queue_full`, or `cancelled` when the client has left: nothing would end the counting
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

  /** Counts this many bytes no longer. */
  release(bytes: number): void {
    this.#bytes -= bytes
  }
}
