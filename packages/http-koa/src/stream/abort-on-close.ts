import type { KoaContext } from '../routes/koa-context.js'

/**
 * A signal that fires when the connection closes: the client left, was cut off, or has its answer. Where
 * the client can come back to its stream, it fires when that is over.
 */
export function abortOnClose(ctx: KoaContext): AbortSignal {
  const controller = new AbortController()
  if (ctx.res.destroyed) controller.abort()
  else {
    ctx.res.once('close', () => {
      const { session, cutReason } = ctx.state
      const abort = () => controller.abort(cutReason)
      if (session === undefined) abort()
      else session.onOver(abort)
    })
  }
  return controller.signal
}
