import type { ServerResponse } from 'node:http'
import type { KoaContext } from '../koa-context.js'

/** Begins a stream of JSON lines, past koa: one write per line is all it costs. */
export function startNdjson(ctx: KoaContext): ServerResponse {
  ctx.respond = false
  ctx.status = 200
  ctx.set({ 'Content-Type': 'application/x-ndjson', 'X-Accel-Buffering': 'no' })
  ctx.res.flushHeaders()
  return ctx.res
}
