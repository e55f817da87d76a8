import type { Logger, LogMethod } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState, TransportServices } from './koa-context.js'

/** Asked every few seconds by machines: not worth a line each. */
const quietPaths = /^\/(v1\/)?health(\/|$)|^\/metrics\/?$/

/**
 * Lends the transport's services to a request, with its id in every line that is logged for it, and
 * logs the request when its answer has gone out: never its body, its query or its headers.
 */
export function logRequests(services: TransportServices): Middleware<KoaState> {
  return async (ctx, next) => {
    const { clock } = services
    const requestId = ctx.response.get('X-Request-Id')
    const logger = withFields(services.logger, { requestId })
    const begin = clock.now()
    ctx.state.transport = { ...services, logger }
    ctx.res.once('close', () => {
      const level = quietPaths.test(ctx.path) ? 'debug' : 'info'
      logger[level]({ ...describe(ctx), ms: clock.now() - begin }, 'request')
    })
    await next()
  }
}

function describe(ctx: Context & { readonly state: KoaState }) {
  const { method, path, res, state } = ctx
  return {
    method,
    path: path.slice(0, 256),
    status: res.statusCode,
    ...(res.writableFinished ? {} : { cut: true }),
    ...(state.keyName === undefined ? {} : { key: state.keyName }),
  }
}

function withFields(logger: Logger, more: Readonly<Record<string, unknown>>): Logger {
  const adding =
    (log: LogMethod): LogMethod =>
    (fields, message) =>
      log({ ...more, ...fields }, message)
  return {
    debug: adding((fields, message) => logger.debug(fields, message)),
    info: adding((fields, message) => logger.info(fields, message)),
    warn: adding((fields, message) => logger.warn(fields, message)),
    error: adding((fields, message) => logger.error(fields, message)),
  }
}
