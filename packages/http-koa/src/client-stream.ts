import type { ServerResponse } from 'node:http'
import { CllmError } from '@cllm/core'
import type { KoaContext } from './koa-context.js'

/** Milliseconds that a client may take nothing of an answer that is complete. */
const stallMs = 60_000

/**
 * What a client is sent as it comes, past koa: one write per event is all it costs. Nobody waits for a
 * client: what it has not taken yet stays in memory, up to a limit, at which it is cut off and its
 * request cancelled.
 */
export class ClientStream {
  readonly #res: ServerResponse

  /** Sends the head of the answer. */
  constructor(
    private readonly ctx: KoaContext,
    headers: Readonly<Record<string, string>>,
  ) {
    ctx.respond = false
    ctx.status = 200
    ctx.set({ ...headers, 'X-Accel-Buffering': 'no' }) // nginx would hold events back
    ctx.res.flushHeaders()
    this.#res = ctx.res
  }

  /** Whether the client is gone. */
  get destroyed(): boolean {
    return this.#res.destroyed
  }

  /** Sends a part, or cuts the client off if too much waits for it. */
  write(text: string): void {
    if (this.destroyed) return
    this.#res.write(text)
    const { logger, streamLimitBytes } = this.ctx.state.transport
    const unread = this.#res.writableLength
    if (unread <= streamLimitBytes) return
    const reason = `The client did not read: ${unread} bytes wait for it, ${streamLimitBytes} may`
    logger.warn({ unreadBytes: unread }, 'a client that does not read is cut off')
    this.ctx.state.cutReason = new CllmError('cancelled', reason)
    this.#res.destroy()
  }

  /** Ends the answer; a client that takes nothing of what is left is cut off after a minute. */
  end(text?: string): void {
    this.#res.end(text)
    this.#res.setTimeout(stallMs)
  }
}
