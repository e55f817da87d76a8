import type { KoaContext } from '../routes/koa-context.js'

/** A signal that fires when the connection closes: the client left, was cut off, or has its answer. */
export function abortOnClose(ctx: KoaContext): AbortSignal {
  const controller = new AbortController()
  if (ctx.res.destroyed) controller.abort()
  else ctx.res.once('close', () => controller.abort(ctx.state.cutReason))
  return controller.signal
}
