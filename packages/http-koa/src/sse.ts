import type { ServerResponse } from 'node:http'
import type { KoaContext } from './koa-context.js'

/**
 * Begins a stream of server-sent events, past koa: one write per event is all it costs. What a slow
 * client has not taken yet stays in memory, as it would in the engine: an answer has an end.
 */
export function startEventStream(ctx: KoaContext): ServerResponse {
  ctx.respond = false
  ctx.status = 200
  ctx.set({
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-cache',
    'X-Accel-Buffering': 'no', // nginx would hold events back
  })
  ctx.res.flushHeaders()
  return ctx.res
}
