import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  CllmError,
  type Random,
  requestId,
  type Transport,
  type TransportAddress,
  type TransportContext,
  type TransportFactory,
} from '@cllm/core'
import { Router } from '@koa/router'
import Koa, { type Middleware } from 'koa'
import { type ConnectionOptions, createHttpServer } from './create-http-server.js'
import { handleErrors, isClientGone } from './error-handler.js'
import type { ErrorShape, KoaProtocol, KoaState, TransportServices } from './koa-context.js'
import { OpenConnections } from './open-connections.js'
import { refuseBadHttp } from './refuse-bad-http.js'
import { logRequests } from './log-requests.js'
import { listenError } from './listen-error.js'
import { secure, type SecurityOptions } from './security/secure.js'

/** Settings of {@link koaTransport}. */
export interface KoaTransportOptions extends ConnectionOptions {
  /** A name or address; default `127.0.0.1`. */
  readonly host?: string
  /** Default 8080; 0 takes any free one. */
  readonly port?: number
  /** What is served. Where two claim a path, the first one has it. */
  readonly protocols: readonly KoaProtocol[]
  /** The largest body that is read, in bytes; default 1 MiB. */
  readonly bodyLimitBytes?: number
  /** How deep the JSON of a body may be nested; default 100. */
  readonly jsonDepthLimit?: number
  /**
   * Bytes of a streamed answer that may wait for its client to take them, beside what the operating
   * system buffers; at more it is cut off and its request cancelled. Default 1 MiB.
   */
  readonly streamLimitBytes?: number
  /** Who may ask what; default: everyone everything. */
  readonly security?: SecurityOptions
}

/** One HTTP server for any number of protocols. */
export class KoaTransport implements Transport {
  readonly name = 'http-koa'
  readonly #host: string
  readonly #port: number
  readonly #services: TransportServices
  readonly #scheme: string
  readonly #server: Server
  readonly #connections: OpenConnections
  #closing = false

  constructor(options: KoaTransportOptions, context: TransportContext) {
    this.#host = options.host ?? '127.0.0.1'
    this.#port = options.port ?? 8080
    this.#services = {
      clock: context.clock,
      logger: context.logger,
      random: context.random,
      bodyLimitBytes: options.bodyLimitBytes ?? 1024 * 1024,
      jsonDepthLimit: options.jsonDepthLimit ?? 100,
      streamLimitBytes: options.streamLimitBytes ?? 1024 * 1024,
    }
    const router = new Router<KoaState>()
    const security = secure(options.security ?? {}, context)
    const directory = options.protocols.reduce(
      (engines, protocol) => protocol.around?.(engines, context) ?? engines,
      security.directory,
    )
    for (const protocol of options.protocols) protocol.mount(router, directory)
    const shapes = errorShapes(options.protocols)
    const app = this.#createApp(router, shapes, security.middleware)
    this.#scheme = options.tls === undefined ? 'http' : 'https'
    // koa answers its own failures; what it returns is never rejected
    const answer = app.callback()
    this.#server = createHttpServer(options, (req, res) => void answer(req, res))
    this.#connections = new OpenConnections(this.#server)
    refuseBadHttp(this.#server, this.#connections, shapes, context.logger)
  }

  /** Throws `address_in_use` when it cannot listen there. */
  async listen(): Promise<TransportAddress> {
    const server = this.#server
    try {
      server.listen(this.#port, this.#host)
      await once(server, 'listening')
    } catch (error) {
      throw listenError(error as Error, this.#host, this.#port)
    }
    server.on('error', (error) => this.#services.logger.error({ err: error }, 'HTTP server failed'))
    const { port } = server.address() as AddressInfo
    const host = this.#host.includes(':') ? `[${this.#host}]` : this.#host
    return { url: `${this.#scheme}://${host}:${port}` }
  }

  drain(): void {
    this.#closing = true
  }

  async close(deadline: number): Promise<void> {
    this.#closing = true
    const server = this.#server
    if (!server.listening) return
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    this.#connections.close()
    const cancel = this.#services.clock.at(deadline, () => server.closeAllConnections())
    await closed
    cancel()
  }

  #createApp(
    router: Router<KoaState>,
    shapes: readonly ErrorShape[],
    guards: readonly Middleware<KoaState>[],
  ): Koa<KoaState> {
    const { logger } = this.#services
    const app = new Koa<KoaState>()
    app.on('error', (error: unknown) => {
      if (!isClientGone(error)) logger.error({ err: error }, 'response failed')
    })
    app.use(async (ctx, next) => {
      ctx.set('X-Request-Id', requestIdOf(ctx.get('X-Request-Id'), this.#services.random))
      this.#connections.begin(ctx.req.socket, ctx.res)
      await next()
    })
    app.use(logRequests(this.#services))
    app.use(handleErrors(shapes))
    app.use(async (ctx, next) => {
      if (!this.#closing || ctx.path === '/health/live') return await next()
      // The next request of this client may find another server.
      ctx.set('Connection', 'close')
      throw new CllmError('shutting_down', 'The server is shutting down')
    })
    for (const guard of guards) app.use(guard)
    app.use(router.routes())
    app.use(router.allowedMethods())
    return app
  }
}

/** The client's own id where it has a sensible one. */
const requestIdOf = (given: string, random: Random): string =>
  /^[\w.:-]{1,128}$/.test(given) ? given : requestId(random)

const errorShapes = (protocols: readonly KoaProtocol[]): ErrorShape[] =>
  protocols.flatMap(({ errors }) => (errors === undefined ? [] : [errors]))

/**
 * Serves protocols over HTTP/1.1 with koa.
 *
 * @example
 * const transport = koaTransport({ port: 8080, protocols: [nativeProtocol()] })
 */
export function koaTransport(options: KoaTransportOptions): TransportFactory {
  return (context) => new KoaTransport(options, context)
}
