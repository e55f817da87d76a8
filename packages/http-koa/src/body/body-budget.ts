import { CllmError } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'

/** Smaller bodies are always accepted: the engine's queue limits the number of requests. */
const smallBytes = 64 * 1024

/** Throws `cancelled` when the client has left already. */
export function refuseGone({ res }: KoaContext): void {
  if (res.destroyed) throw new CllmError('cancelled', 'The client left before its body was read')
}

/**
 * Counts the bytes of the bodies of all requests in progress, up to a limit. The number of waiting
 * requests is limited, but a thousand bodies of 1 MiB, parsed, would still be gigabytes.
 */
export class BodyBudget {
  #bytes = 0

  constructor(private readonly limit: number) {}

  /**
   * Counts a body until its answer is sent: what is returned takes the bytes of each part as it comes, so
   * that those are counted, too, whose ends never come.
   *
   * @throws `queue_full`, or `cancelled` when the client has left: nothing would end the counting
   */
  begin(ctx: KoaContext): (bytes: number) => void {
    refuseGone(ctx)
    let own = 0
    let isOver = false
    ctx.res.once('close', () => {
      isOver = true
      this.#bytes -= own
    })
    return (bytes) => {
      if (isOver) return
      if (own + bytes > smallBytes && this.#bytes + bytes > this.limit) {
        const message = `The bodies of requests in progress have ${this.#bytes} bytes; the limit is ${this.limit}`
        throw new CllmError('queue_full', message, { details: { limit: this.limit } })
      }
      own += bytes
      this.#bytes += bytes
    }
  }
}
