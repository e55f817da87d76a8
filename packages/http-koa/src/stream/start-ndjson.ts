import { ClientStream } from './client-stream.js'
import type { KoaContext } from '../routes/koa-context.js'

/** Begins a stream of JSON lines. */
export function startNdjson(ctx: KoaContext): ClientStream {
  return new ClientStream(ctx, { 'Content-Type': 'application/x-ndjson' })
}
