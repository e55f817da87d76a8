import { ClientStream } from './client-stream.js'
import type { KoaContext } from '../routes/koa-context.js'

/** Begins a stream of server-sent events. */
export function startEventStream(ctx: KoaContext): ClientStream {
  const session = ctx.state.transport.streams.begin(ctx)
  if (session !== undefined) ctx.state.session = session
  return new ClientStream(ctx, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-cache',
  })
}
