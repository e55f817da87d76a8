import type { KoaContext } from './koa-context.js'

/** A signal that fires when the client leaves or is cut off (or has its whole answer). */
export function abortOnClose(ctx: KoaContext): AbortSignal {
  const controller = new AbortController()
  if (ctx.res.destroyed) controller.abort()
  else ctx.res.once('close', () => controller.abort(ctx.state.cutReason))
  return controller.signal
}
