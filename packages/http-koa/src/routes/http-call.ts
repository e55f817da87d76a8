import type { EngineDirectory, OpenOptions } from '@cllm/core'
import { readJsonBody, readJsonList } from '../body/read-json-body.js'
import { allowUpload } from '../server/create-http-server.js'
import type { Call, IncomingBody, OpenedModel } from './call.js'
import type { KoaContext } from './koa-context.js'

/**
 * A client's request as its handler sees it.
 *
 * @param checked - what the driver has found out about it
 * @param signal - fires when nobody wants the answer any more
 */
export function httpCall(
  ctx: KoaContext,
  checked: Pick<Call, 'fields' | 'query' | 'params' | 'engines'>,
  signal: AbortSignal,
): Call {
  const { id, keyName, transport } = ctx.state
  const { logger, clock, random, streams } = transport
  return {
    ...checked,
    id,
    path: ctx.path,
    keyName,
    signal,
    logger,
    clock,
    random,
    streams,
    open: (model, options) => openModel(checked.engines, model, { until: signal, ...options }),
    header: (name) => ctx.get(name),
    set: (headers) => setHeaders(ctx, headers),
    accepts: (...types) => ctx.accepts(...types),
    get takesGzip() {
      return ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
    },
    get body(): IncomingBody {
      return {
        object: async () => await readJsonBody(ctx),
        list: async () => await readJsonList(ctx),
        stream: ctx.req,
        type: ctx.get('Content-Type'),
        length: ctx.get('Content-Length'),
        allowUpload: () => allowUpload(ctx.req),
        count: (bytes) => transport.bodies.count(ctx, bytes),
      }
    },
  }
}

/** Sets headers of an answer; `Vary` adds to what others have said. */
export function setHeaders(ctx: KoaContext, headers: Readonly<Record<string, string>>): void {
  const { Vary: vary, ...others } = headers
  if (vary !== undefined) ctx.vary(vary)
  ctx.set(others)
}

/** @throws `model_not_found` */
export function openModel(
  engines: EngineDirectory,
  model: string | undefined,
  options?: OpenOptions,
): OpenedModel {
  const client = engines.open(model, options)
  return { model: model ?? engines.list()[0] ?? '', client }
}
