import { once } from 'node:events'
import type { ParameterizedContext } from 'koa'
import type { KoaState } from './koa-context.js'

/** How much of an unwanted body is taken in, so that its sender gets to read the answer. */
const drainBytes = 64 * 1024 * 1024
/** And for how long. */
const drainMs = 10_000

/**
 * Answers while the client is still sending. Closing a connection with unread input resets it, and
 * the client loses the answer: so all of the answer goes out at once, the rest of the body is
 * thrown away as it comes, within bounds, and only then is the connection closed (nginx calls it
 * a lingering close).
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
    // enough, or the client has gone
  } finally {
    cancel()
    enough.abort()
    res.end()
  }
}
