import { once } from 'node:events'
import type { ParameterizedContext } from 'koa'
import type { KoaState } from '../routes/koa-context.js'

/** Bytes of an unwanted body that are read and dropped, so that the client can read the answer. */
const drainBytes = 64 * 1024 * 1024
/** Milliseconds to do so. */
const drainMs = 10_000

/**
 * Answers while the client is still sending. Closing a connection with unread input resets it, and
 * the client loses the answer. So the whole answer is sent at once, the rest of the body is read and
 * dropped within limits, and only then is the connection closed (a lingering close in nginx).
 */
export async function refuseBody(ctx: ParameterizedContext<KoaState>, body: string): Promise<void> {
  const { req, res } = ctx
  const { clock } = ctx.state.transport
  ctx.respond = false
  ctx.set({
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  })
  res.write(body)
  const enough = new AbortController()
  let drained = 0
  req.on('data', (chunk: Buffer) => {
    drained += chunk.length
    if (drained > drainBytes) enough.abort()
  })
  const cancel = clock.at(clock.now() + drainMs, () => enough.abort())
  try {
    req.resume()
    await Promise.race(['end', 'close'].map((event) => once(req, event, { signal: enough.signal })))
  } catch {
    // a limit is reached, or the client disconnected
  } finally {
    cancel()
    enough.abort()
    res.end()
  }
}
