import { CllmError } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'

/**
 * A signal that fires when the connection closes: the client left, was cut off, or has its answer. Where
 * the client can come back to its stream, it fires when that is over or was stopped.
 */
export function abortOnClose(ctx: KoaContext): AbortSignal {
  const controller = new AbortController()
  const abort = () => {
    const isStopped = ctx.state.session?.isCancelled === true
    controller.abort(isStopped ? stopped() : ctx.state.cutReason)
  }
  const onClose = () => {
    // also one that has begun since
    const { session } = ctx.state
    if (session === undefined) abort()
    else session.onOver(abort)
  }
  ctx.state.session?.onOver(abort)
  if (ctx.res.destroyed) onClose()
  else ctx.res.once('close', onClose)
  return controller.signal
}

const stopped = () =>
  new CllmError('cancelled', 'The request was cancelled: its stream was stopped')
