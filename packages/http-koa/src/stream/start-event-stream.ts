import { ClientStream } from './client-stream.js'
import type { KoaContext } from '../routes/koa-context.js'

/**
 * Tells that the answer will be a stream, before anything waits for the model: a client that sent
 * `X-Conversation-Id` can leave, come back and stop it from then on. Does nothing for other answers.
 *
 * @throws `invalid_request` for a wrong id
 */
export function expectStream(ctx: KoaContext, isStreamed: boolean | null | undefined): void {
  if (isStreamed !== true) return
  const session = ctx.state.transport.streams.begin(ctx)
  if (session !== undefined) ctx.state.session = session
}

/** Begins a stream of server-sent events. */
export function startEventStream(ctx: KoaContext): ClientStream {
  if (ctx.state.session === undefined) expectStream(ctx, true)
  ctx.state.transport.streams.accept(ctx)
  return new ClientStream(ctx, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-cache',
  })
}
