import type { Logger, LogMethod } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState, TransportServices } from '../routes/koa-context.js'

/**
 * Gives a request the transport's services, with the request's id in every log line, and logs the
 * request once its answer is sent. Its body, query and headers are never logged.
 */
export function logRequests(services: TransportServices): Middleware<KoaState> {
  return async (ctx, next) => {
    const { clock } = services
    const requestId = ctx.response.get('X-Request-Id')
    const logger = withFields(services.logger, { requestId })
    const begin = clock.now()
    ctx.state.transport = { ...services, logger }
    ctx.res.once('close', () => {
      const level = ctx.state.match.routes[0]?.route.isProbe === true ? 'debug' : 'info'
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
