import type { Logger } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { Middleware } from 'koa'
import { Readable } from 'node:stream'
import type { KoaState, TransportServices } from '../routes/koa-context.js'
import type { RouteTable } from '../routes/route-table.js'
import { type AnswerFigures, tenth } from './answer-figures.js'
import type { OpenConnections } from './create-http-server.js'

/** Logs with the id of a request in every line. */
const ofRequest = (logger: Logger, id: string): Logger => ({
  debug: (fields, message) => logger.debug({ requestId: id, ...fields }, message),
  info: (fields, message) => logger.info({ requestId: id, ...fields }, message),
  warn: (fields, message) => logger.warn({ requestId: id, ...fields }, message),
  error: (fields, message) => logger.error({ requestId: id, ...fields }, message),
})

/**
 * Finds the route of a request, gives it the transport's services and an id, and logs it once its answer is
 * sent, with the figures of what it generated. Its body, query and headers are never logged.
 */
export function beginRequest(
  services: TransportServices,
  table: RouteTable,
  connections: OpenConnections,
  answers: AnswerFigures,
): Middleware<KoaState> {
  const { bodies, clock, random, stallMs } = services
  return async (ctx, next) => {
    const { req, res, state } = ctx
    // a base URL that ends with a slash, with a path behind it
    if (ctx.path.includes('//')) ctx.path = ctx.path.replaceAll(/\/{2,}/g, '/')
    const given = ctx.get('X-Request-Id')
    const id = /^[\w.:-]{1,128}$/.test(given) ? given : requestId(random)
    ctx.set('X-Request-Id', id)
    if (ctx.get('anthropic-version') !== '') ctx.set('request-id', id)
    state.id = id
    state.match = table.match(ctx.method, ctx.path)
    state.transport = { ...services, logger: ofRequest(services.logger, id) }
    state.left = new AbortController()
    state.bodyBytes = 0
    const began = clock.now()
    answers.begin(id)
    connections.begin(req.socket, res)
    res.once('close', () => {
      connections.end(req.socket, res)
      bodies.release(state.bodyBytes)
      const level = state.match.routes[0]?.route.isQuiet === true ? 'debug' : 'info'
      const { method, path } = ctx
      const what = { requestId: id, method, path: path.slice(0, 256), status: res.statusCode }
      const cut = res.writableFinished ? {} : { cut: true }
      const key = state.keyName === undefined ? {} : { key: state.keyName }
      const fields = {
        ...what,
        ...cut,
        ...key,
        ms: tenth(clock.now() - began),
        ...answers.take(id),
      }
      services.logger[level](fields, 'request')
      state.left.abort(state.cutReason)
    })
    await next()
    // A whole answer is sent from now on; a stream may have nothing to send for as long.
    if (ctx.respond !== false && !(ctx.body instanceof Readable)) res.setTimeout(stallMs)
  }
}
