import type { ServerResponse } from 'node:http'
import { CllmError } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'
import type { StreamWriter } from './resumable-streams.js'

/**
 * A streamed answer that bypasses koa, with one write per event. The engine never waits for a client:
 * unread bytes stay in memory up to a limit. Above it the client is disconnected and its request cancelled.
 */
export class ClientStream implements StreamWriter {
  readonly #res: ServerResponse

  /** Sends the status and headers. */
  constructor(
    private readonly ctx: KoaContext,
    headers: Readonly<Record<string, string>>,
  ) {
    ctx.set({ ...headers, 'X-Accel-Buffering': 'no' }) // nginx would hold events back
    // Only now, so that an error in the headers still gets an answer from koa.
    ctx.respond = false
    ctx.status = 200
    ctx.res.flushHeaders()
    this.#res = ctx.res
  }

  /** Whether nobody reads what is written: the client has disconnected. */
  get destroyed(): boolean {
    return this.#res.destroyed
  }

  /** Bytes that the client has not read, besides the operating system's buffers. */
  get unread(): number {
    return this.#res.writableLength
  }

  /** Whether further writes would only wait in memory for the client. */
  get isFull(): boolean {
    return this.#res.writableNeedDrain
  }

  /** Calls back when the stream is no longer full; a client that reads nothing for a minute is disconnected. */
  onceDrained(callback: () => void): void {
    this.#res.setTimeout(this.ctx.state.transport.stallMs)
    this.#res.once('drain', () => {
      this.#res.setTimeout(0)
      callback()
    })
  }

  /**
   * Sends a part, or disconnects the client if it has left too much of the earlier parts unread. The new part
   * does not count, as its size is not the client's fault.
   */
  write(text: string | Uint8Array): void {
    if (this.#res.destroyed || this.#res.writableEnded) return
    const { logger, streamLimitBytes } = this.ctx.state.transport
    const unread = this.#res.writableLength
    // Node buffers up to its high-water mark even for a client that reads.
    const limit = Math.max(streamLimitBytes, this.#res.writableHighWaterMark)
    if (unread <= limit) return void this.#res.write(text)
    const reason = `The client left ${unread} bytes unread; the limit is ${limit}`
    logger.warn({ unreadBytes: unread }, 'disconnected a client that does not read')
    this.ctx.state.cutReason = new CllmError('cancelled', reason)
    this.#res.destroy()
  }

  /** Ends the answer; a client that reads nothing for a minute is disconnected. */
  end(): void {
    if (this.#res.destroyed || this.#res.writableEnded) return
    this.#res.end()
    this.#res.setTimeout(this.ctx.state.transport.stallMs)
  }

  /** Disconnects the client, which cannot get the rest. */
  cut(): void {
    this.#res.destroy()
  }
}
