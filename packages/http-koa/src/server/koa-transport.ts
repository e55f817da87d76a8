import Koa from 'koa'
import {
  CllmError,
  defined,
  type EngineDirectory,
  type Logger,
  messageOf,
  synchronous,
  within,
  type Transport,
  type TransportAddress,
  type TransportContext,
  type TransportFactory,
} from '@cllm/core'
import { Router } from '@koa/router'
import type { RequestListener, Server } from 'node:http'
import { BodyBudget } from '../body/body-budget.js'
import { defaultJsonDepth } from '../body/read-body.js'
import { withMediaUrls } from '../engines/media-urls.js'
import { watchEngines } from '../engines/watch-engines.js'
import { handleErrors, isClientGone } from '../errors/error-handler.js'
import { UnknownFields } from '../fields/fields.js'
import { serveRoutes } from '../routes/driver.js'
import type { KoaProtocol, KoaState, TransportServices } from '../routes/koa-context.js'
import { RouteTable } from '../routes/route-table.js'
import { checkRole, requestScope } from '../security/authenticate.js'
import { MediaFetcher, type MediaUrlOptions } from '../security/media-fetcher.js'
import { secure, type SecurityOptions } from '../security/secure.js'
import { ResumableStreams } from '../stream/resumable-streams.js'
import { beginRequest, guardGate, noteFigures, type OpenRequests } from './begin-request.js'
import type { ConnectionOptions, Listening } from './create-http-server.js'
import { createHttpServer, listenAt, OpenConnections, refuseBadHttp } from './create-http-server.js'

/** Settings of {@link koaTransport}. */
export interface KoaTransportOptions extends ConnectionOptions {
  /** The name or address to listen on, or several; default `127.0.0.1`. */
  readonly host?: string | readonly string[]
  /** Default 8080; 0: any free port. */
  readonly port?: number
  /** The protocols to serve. If two have a route for the same method and path, the first one answers. */
  readonly protocols: readonly KoaProtocol[]
  /** The largest body that is read, in bytes; default 1 MiB. */
  readonly bodyLimitBytes?: number
  /**
   * The limit in bytes for the bodies of all requests in progress together; further large ones are refused
   * with `queue_full`. Only received bytes count. Default 256 MiB.
   */
  readonly bodiesLimitBytes?: number
  /** How deep the JSON of a body may be nested; default 100. */
  readonly jsonDepthLimit?: number
  /**
   * Bytes of a streamed answer that may be unread by the client, besides the operating system's
   * buffers; above it the client is disconnected and its request cancelled. Default 1 MiB.
   */
  readonly streamLimitBytes?: number
  /**
   * Milliseconds without reading after which a client loses the rest of a complete answer. Default 60,000.
   */
  readonly stallMs?: number
  /** API keys, rate limits and allowed origins. Default: no keys and no limits. */
  readonly security?: SecurityOptions
  /** The servers from which images and sounds may be fetched. Default: none, and URLs are refused. */
  readonly mediaUrls?: MediaUrlOptions
  /** Until it returns true, routes that are not `isAlways` answer `model_loading`. Default: always ready. */
  readonly isReady?: () => boolean
}

/** One HTTP server for any number of protocols. */
export class KoaTransport implements Transport {
  readonly name = 'http-koa'
  readonly #hosts: readonly string[]
  readonly #port: number
  readonly #services: TransportServices
  readonly #protocols: readonly KoaProtocol[]
  readonly #scheme: string
  readonly #server: Server
  readonly #connections: OpenConnections
  #listening: Listening | undefined
  #closed: Promise<void> | undefined
  readonly #gate = { isClosing: false }

  constructor(options: KoaTransportOptions, context: TransportContext) {
    const hosts = [options.host ?? []].flat()
    this.#protocols = options.protocols
    this.#hosts = hosts.length === 0 ? ['127.0.0.1'] : hosts
    this.#port = options.port ?? 8080
    this.#services = {
      clock: context.clock,
      logger: context.logger,
      random: context.random,
      bodyLimitBytes: options.bodyLimitBytes ?? 1024 * 1024,
      bodies: new BodyBudget(options.bodiesLimitBytes ?? 256 * 1024 * 1024),
      jsonDepthLimit: options.jsonDepthLimit ?? defaultJsonDepth,
      streamLimitBytes: options.streamLimitBytes ?? 1024 * 1024,
      stallMs: options.stallMs ?? 60_000,
      streams: new ResumableStreams(context.clock),
    }
    this.#scheme = options.tls === undefined ? 'http' : 'https'
    const unmade = options.protocols.find((one) => one.create !== undefined)
    const problem = 'expected what it makes, instead got its definition'
    if (unmade !== undefined) throw invalid(unmade, 'create', problem)
    const letting = options.protocols.filter((one) => one.keys !== undefined)
    const { keys = letting.shift()?.keys, ...others } = options.security ?? {}
    const [second] = letting
    if (second !== undefined) throw invalid(second, 'keys', 'the server has other keys already')
    const security = secure({ ...others, ...defined({ keys }) }, context, this.#hosts)
    const open: OpenRequests = new Map()
    const engines = this.#enginesFor(options, context, security, open)
    this.#server = createHttpServer(options)
    this.#connections = new OpenConnections(this.#server, options.maxConnections)
    const table = new RouteTable(options.protocols)
    refuseBadHttp(this.#server, this.#connections, table, context.logger)
    const app = new Koa<KoaState>()
    // koa tells of a stream's failure twice
    const failed = new WeakSet<object>()
    app.on('error', (error: unknown, ctx: { readonly state: Partial<KoaState> }) => {
      if (isClientGone(error) || failed.has(ctx)) return
      failed.add(ctx)
      const { logger } = ctx.state.transport ?? context
      logger.error({ err: error }, 'response failed')
    })
    // What each request passes through, in this order.
    app.use(beginRequest(this.#services, table, this.#connections, open))
    app.use(handleErrors)
    app.use(guardGate(this.#gate, options.isReady))
    for (const check of security.middleware) app.use(check)
    for (const protocol of options.protocols) {
      if (protocol.within === undefined) continue
      app.use(async (ctx, next) => {
        let answered: Promise<void> | undefined
        await protocol.within?.(ctx.headers, () => (answered ??= next()))
        if (answered === undefined) throw invalid(protocol, 'within', 'it answers no request')
        // A hook that does not wait for the handling must not lose the answer.
        await answered
      })
    }
    app.use(serveRoutes(engines, new UnknownFields()))
    mountOthers(app, options.protocols, engines, context.logger)
    // koa handles its own errors: the promise that the callback returns never rejects
    this.#server.on('request', app.callback() as RequestListener)
  }

  /**
   * The engines that protocols use: their requests are observed, and images and sounds are fetched for them. The
   * wrappers of protocols come outermost.
   */
  #enginesFor(
    { protocols, mediaUrls }: KoaTransportOptions,
    context: TransportContext,
    { access, observers }: ReturnType<typeof secure>,
    open: OpenRequests,
  ): EngineDirectory {
    const { clock, logger } = context
    const surroundings = { ...context, ...(access && { access }) }
    const fetcher = mediaUrls && new MediaFetcher(mediaUrls, clock)
    const owners = new Map(
      protocols.flatMap((one) => {
        const observe = () => synchronous(one.observe?.(surroundings) ?? [], 'observe')
        const own = [asked(one, 'observe', logger, observe)].flat()
        return own.map((observer) => [observer, one.name])
      }),
    )
    let engines = watchEngines(withMediaUrls(context.directory, this.#services.bodies, fetcher), {
      clock,
      logger,
      owners,
      // rate limits come last, so that a request that another observer refuses does not count
      observers: [...observers, ...owners.keys(), noteFigures(open)].toReversed(),
      isGuarded: access !== undefined,
    })
    for (const protocol of protocols) {
      const around = () => protocol.around?.(engines, surroundings) ?? engines
      const made = asked(protocol, 'around', logger, around)
      if (typeof made.open !== 'function') throw invalid(protocol, 'around', 'it made no directory')
      engines = made
    }
    for (const protocol of protocols) {
      asked(protocol, 'start', logger, () => protocol.start?.(engines, surroundings))
    }
    return engines
  }

  /** Throws `address_in_use` when it cannot listen there. */
  async listen(): Promise<TransportAddress> {
    const server = this.#server
    this.#listening = await listenAt(server, this.#hosts, this.#port)
    server.on('error', (error) => this.#services.logger.error({ err: error }, 'HTTP server failed'))
    const [first = ''] = this.#hosts
    const host = first.includes(':') ? `[${first}]` : first
    return { url: `${this.#scheme}://${host}:${this.#listening.port}` }
  }

  drain(): void {
    this.#gate.isClosing = true
  }

  async close(deadline: number): Promise<void> {
    this.#gate.isClosing = true
    this.#closed ??= this.#close()
    this.#connections.close()
    const cancel = this.#services.clock.at(deadline, () => this.#connections.cut())
    await this.#closed
    cancel()
  }

  /** Closes the protocols after the last answer. One that fails or hangs is logged, and keeps nothing from closing. */
  async #close(): Promise<void> {
    await this.#listening?.close()
    const { clock, logger } = this.#services
    const late = () => Promise.reject(new Error(`it has not ended after ${closeMs / 1000} s`))
    await Promise.all(
      this.#protocols.map(async (one) => {
        const closing = (async () => await one.close?.())()
        await within(clock, closeMs, closing, late).catch((err: unknown) => {
          logger.error({ err }, invalid(one, 'close', messageOf(err)).message)
        })
      }),
    )
  }
}

/** Milliseconds that a protocol has to close; a server waits for two seconds for its transports. */
const closeMs = 1500

const invalid = ({ name }: KoaProtocol, hook: string, problem: string, cause?: unknown) =>
  new CllmError('plugin_invalid', `protocol "${name}": ${hook}: ${problem}`, { cause })

/**
 * The result of a protocol's hook that is called before the server listens. Nobody awaits a hook that is async by
 * mistake: its rejection, which would end the process, is logged.
 *
 * @throws `plugin_invalid` with the names of protocol and hook, if the hook throws
 */
function asked<T>(protocol: KoaProtocol, hook: string, logger: Logger, call: () => T): T {
  const failed = (cause: unknown) => invalid(protocol, hook, messageOf(cause), cause)
  try {
    const made = call()
    if (made instanceof Promise) {
      made.catch((err: unknown) => logger.error({ err }, failed(err).message))
    }
    return made
  } catch (cause) {
    throw CllmError.isInstance(cause) ? cause : failed(cause)
  }
}

/** Adds the routes that protocols mount themselves; with API keys only admins may use them, as they state no access. */
function mountOthers(
  app: Koa<KoaState>,
  protocols: readonly KoaProtocol[],
  engines: EngineDirectory,
  logger: Logger,
): void {
  const router = new Router<KoaState>()
  for (const protocol of protocols) {
    asked(protocol, 'mount', logger, () => protocol.mount?.(router, engines))
  }
  if (router.stack.length === 0) return
  app.use(async (ctx, next) => {
    const isServed = router.match(ctx.path, ctx.method).route
    const isRoute = ctx.state.match.methods.length > 0
    if (isRoute && (!isServed || ctx.method === 'OPTIONS')) return
    const key = requestScope.getStore()?.key
    if (isServed && key !== undefined) checkRole(key, ctx.path, 'admin')
    await next()
  })
  app.use(router.routes())
  app.use(router.allowedMethods())
}

/**
 * Serves protocols over HTTP/1.1 with koa.
 *
 * @example
 * const transport = koaTransport({ port: 8080, protocols: [nativeProtocol()] })
 */
export function koaTransport(options: KoaTransportOptions): TransportFactory {
  return (context) => new KoaTransport(options, context)
}
