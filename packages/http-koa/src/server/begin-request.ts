import { CllmError, type Logger } from '@cllm/core'
import { requestId } from '@cllm/host'
import type { Middleware } from 'koa'
import { Readable } from 'node:stream'
import type { KoaState, RequestObserver, TransportServices } from '../routes/koa-context.js'
import { unwatched } from '../routes/koa-context.js'
import type { RouteTable } from '../routes/route-table.js'
import type { OpenConnections } from './create-http-server.js'

/** The figures of a request's generation, for its log line; empty if it generated nothing. */
interface Figures {
  model?: string
  promptTokens?: number
  /** Tokens of the prompt that were in the cache. */
  cachedTokens?: number
  generatedTokens?: number
  /** Milliseconds from the request's arrival to the first token. */
  ttftMs?: number
  /** Why the generation ended: `stop`, `length`, or the code of an error. */
  finish?: string
}

/** A request whose answer is in progress. */
interface OpenRequest {
  readonly began: number
  readonly figures: Figures
  /** The times of its first and last token. */
  firstAt?: number
  lastAt?: number
}

/** The requests whose answers are in progress, by the id that they pass on to the engine. */
export type OpenRequests = Map<string, OpenRequest>

/** Notes the figures of what requests generate, except of requests for several answers, which have no single figure. */
export const noteFigures = (open: OpenRequests): RequestObserver => ({
  onSubmit({ model, request: { id = '', sample, continued } }) {
    // a request that continues another one has its id with `~` behind it
    const entry = open.get(id.replace(/~$/, ''))
    if (entry === undefined || sample !== undefined) return unwatched
    const { began, figures } = entry
    figures.model = model
    return {
      onEvent(event, now) {
        if (event.type === 'start') figures.promptTokens ??= event.promptTokens
        if (event.type === 'end') {
          figures.finish = event.reason
          if (continued === undefined) figures.cachedTokens ??= event.usage.cachedTokens
        }
        if (event.type !== 'token') return
        figures.ttftMs ??= tenth(now - began)
        figures.generatedTokens = (figures.generatedTokens ?? 0) + 1
        entry.firstAt ??= now
        entry.lastAt = now
      },
      onEnd(_now, error) {
        if (error !== undefined) figures.finish = error.code
      },
    }
  },
})

/** Rounds to one decimal place. */
const tenth = (value: number): number => Math.round(value * 10) / 10

/** Adds the id of a request to every log line, and to errors which route handles it, if one does already. */
const ofRequest = (logger: Logger, id: string, state: KoaState): Logger => ({
  debug: (fields, message) => logger.debug({ requestId: id, ...fields }, message),
  info: (fields, message) => logger.info({ requestId: id, ...fields }, message),
  warn: (fields, message) => logger.warn({ requestId: id, ...fields }, message),
  error(fields, message) {
    const { protocol, method = '', path = '' } = state.route ?? {}
    const at = protocol === undefined ? {} : { protocol, route: `${method} ${path}` }
    logger.error({ requestId: id, ...at, ...fields }, message)
  },
})

/**
 * Finds the route of a request, gives it the transport's services and an id, and logs it after its answer,
 * with the figures of its generation. Its body, query and headers are never logged.
 */
export function beginRequest(
  services: TransportServices,
  table: RouteTable,
  connections: OpenConnections,
  open: OpenRequests,
): Middleware<KoaState> {
  const { bodies, clock, random, stallMs } = services
  return async (ctx, next) => {
    const { req, res, state } = ctx
    // clients join a base URL with a slash at its end and a path
    if (ctx.path.includes('//')) ctx.path = ctx.path.replaceAll(/\/{2,}/g, '/')
    const given = ctx.get('X-Request-Id')
    const id = /^[\w.:-]{1,128}$/.test(given) ? given : requestId(random)
    ctx.set('X-Request-Id', id)
    if (ctx.get('anthropic-version') !== '') ctx.set('request-id', id)
    // Proxies may give several requests the same id, but in the engine each needs its own.
    state.id = open.has(id) ? requestId(random) : id
    state.match = table.match(ctx.method, ctx.path)
    state.transport = { ...services, logger: ofRequest(services.logger, id, state) }
    state.left = new AbortController()
    state.bodyBytes = 0
    const began = clock.now()
    const entry: OpenRequest = { began, figures: {} }
    open.set(state.id, entry)
    connections.begin(req.socket, res)
    res.once('close', () => {
      connections.end(req.socket, res)
      bodies.release(state.bodyBytes)
      open.delete(state.id)
      const level = state.match.routes[0]?.route.isQuiet === true ? 'debug' : 'info'
      const { method, path } = ctx
      const { figures, firstAt = 0, lastAt = 0 } = entry
      const { generatedTokens = 0, finish = state.errorCode } = figures
      const seconds = (lastAt - firstAt) / 1000
      const fields = {
        requestId: id,
        method,
        path: path.slice(0, 256),
        // as nginx writes it where the client did not wait for an answer
        status: res.headersSent ? res.statusCode : 499,
        ...(!res.writableFinished && { cut: true }),
        ...(state.keyName !== undefined && { key: state.keyName }),
        ms: tenth(clock.now() - began),
        ...figures,
        // from the first token to the last
        ...(seconds > 0 && { tokensPerSecond: tenth((generatedTokens - 1) / seconds) }),
        ...(finish !== undefined && { finish }),
      }
      services.logger[level](fields, 'request')
      state.left.abort(state.cutReason)
    })
    await next()
    // A whole answer is sent from now on; a stream may be silent for longer than this.
    if (ctx.respond !== false && !(ctx.body instanceof Readable)) res.setTimeout(stallMs)
  }
}

/** Refuses requests until the server is ready and while it stops, and requests without exactly one `Host`. */
export function guardGate(
  gate: { readonly isClosing: boolean },
  isReady: () => boolean = () => true,
): Middleware<KoaState> {
  let isOpen = false
  return async (ctx, next) => {
    const hosts = ctx.req.headersDistinct['host']?.length ?? 0
    if (hosts > 1 || (hosts === 0 && ctx.req.httpVersion === '1.1')) {
      throw new CllmError('invalid_http', `Expected HTTP/1.1 with one Host, instead got ${hosts}`)
    }
    const isAlways = ctx.state.match.routes[0]?.route.isAlways
    if (isAlways === true) return await next()
    if (isAlways === 'html' && ctx.accepts('json', 'html') === 'html') return await next()
    if (gate.isClosing) {
      // A new connection may reach another server.
      ctx.set('Connection', 'close')
      throw new CllmError('shutting_down', 'The server is shutting down')
    }
    isOpen ||= isReady()
    if (!isOpen && isAlways !== 'loading') throw new CllmError('model_loading', 'Loading model')
    await next()
  }
}
