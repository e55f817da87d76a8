import { once } from 'node:events'
import type { ParameterizedContext, Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import { CllmError } from '@cllm/core'
import { anthropicErrors } from '../protocols/anthropic/anthropic-answer.js'
import { isAnthropic } from '../request/generation.js'
import { errorHeaders, publicError } from './error-body.js'

/** The most bytes of an unwanted body that are read and dropped, so that the client can read the answer. */
const drainBytes = 64 * 1024 * 1024
/** The most milliseconds for this. */
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

const goneCodes: ReadonlySet<unknown> = new Set([
  'ECONNABORTED',
  'ECONNRESET',
  'EPIPE',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_PREMATURE_CLOSE',
])

/** Whether an error only means that the client disconnected. */
export function isClientGone(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false
  return goneCodes.has(error.code) || String(error.code).startsWith('HPE_') // disconnected, or not HTTP
}

/**
 * Turns errors of later middleware, and requests for unknown paths and methods, into answers in the error format of
 * the path's protocol. Routes that answer Anthropic's clients in their format, and unknown paths, do so here, too.
 */
export const handleErrors: Middleware<KoaState> = async (ctx, next) => {
  const { logger } = ctx.state.transport
  try {
    await next()
    if (ctx.respond !== false && ctx.body === undefined) refuseUnserved(ctx)
  } catch (error) {
    const isGone = ctx.res.destroyed || ctx.req.socket.destroyed
    if (isGone || ctx.headerSent) {
      ctx.respond = false
      ctx.res.destroy()
      if (!isGone) publicError(error, logger)
      return
    }
    const { routes, errors } = ctx.state.match
    const areAnthropics = routes.every(({ route }) => route.isAnthropics)
    const isTheirs = areAnthropics && isAnthropic({ header: (name) => ctx.get(name) })
    const shape = isTheirs ? anthropicErrors : errors
    const id = ctx.response.get('X-Request-Id')
    if (isClientError(error)) {
      const shown = new CllmError('invalid_request', error.message)
      ctx.state.errorCode = shown.code
      ctx.status = error.status
      ctx.body = shape.body(shown, id)
      return
    }
    const shown = publicError(error, logger)
    ctx.state.errorCode = shown.code
    const body = shape.body(shown, id)
    ctx.status = shape.status?.(shown) ?? shown.status
    ctx.set(errorHeaders(shown))
    // a body that was refused by its declared length has not been read at all
    const isRefused = ctx.req.readableDidRead || shown.code === 'body_too_large'
    if (isRefused && !ctx.req.complete) await refuseBody(ctx, JSON.stringify(body))
    else ctx.body = body
  }
}

function refuseUnserved(ctx: Context & { readonly state: KoaState }): void {
  const { methods } = ctx.state.match
  if (methods.length > 0 && !methods.includes(ctx.method)) {
    ctx.set('Allow', methods.join(', '))
    if (ctx.method === 'OPTIONS') {
      ctx.body = ''
      return
    }
    ctx.status = 405
  }
  const allow = ctx.response.get('Allow')
  if (allow !== '' && (ctx.status === 405 || ctx.status === 501)) {
    const message = `${ctx.path} takes ${allow}, not ${ctx.method}`
    throw new CllmError('method_not_allowed', message)
  }
  if (ctx.status === 404 || ctx.status === 501) {
    throw new CllmError('not_found', `There is nothing at ${ctx.path}`)
  }
}

/** Whether an error comes from koa's `ctx.throw(4xx, message)`. */
function isClientError(error: unknown): error is Error & { readonly status: number } {
  if (!(error instanceof Error) || CllmError.isInstance(error)) return false
  const { status, expose } = error as { readonly status?: unknown; readonly expose?: unknown }
  return expose === true && typeof status === 'number'
}
