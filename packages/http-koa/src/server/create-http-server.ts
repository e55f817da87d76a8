import {
  type IncomingMessage,
  type Server,
  type ServerResponse,
  createServer as createPlainServer,
} from 'node:http'
import { setTimeout as after, setImmediate as afterReading } from 'node:timers'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'

/** Bytes of an upload that must come in the time that a whole body has. */
const uploadBytes = 1024 * 1024

const uploads = new WeakSet<IncomingMessage>()

/** Says that a body is a file, which may take long, as long as it comes. */
export function allowUpload(request: IncomingMessage): void {
  uploads.add(request)
}

/**
 * Refuses bodies that take longer than `limitMs`, as Node's `requestTimeout` does, which knows no
 * exceptions: an upload has this time for each MiB.
 */
function limitBodyTime(server: Server, limitMs: number): void {
  server.on('request', (request: IncomingMessage) => {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers
    if (length === '0' && encoding === undefined) return
    const { socket } = request
    let before = socket.bytesRead
    let timer = after(look, limitMs).unref()
    function look(): void {
      if (request.complete || socket.destroyed) return
      const { bytesRead } = socket
      if (uploads.has(request) && bytesRead - before >= uploadBytes) {
        before = bytesRead
        timer = after(look, limitMs).unref()
        return
      }
      const error = new Error('The body took too long')
      server.emit('clientError', Object.assign(error, { code: 'ERR_HTTP_REQUEST_TIMEOUT' }), socket)
    }
    request.once('close', () => {
      // what was answered early may still have a body to come
      if (request.complete || socket.destroyed) clearTimeout(timer)
    })
  })
}

/** Limits and TLS of connections. */
export interface ConnectionOptions {
  /** Certificate chain and private key in PEM; with them the server speaks HTTPS. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer }
  /** Connections that may be open at a time; further ones are closed. Default: no limit. */
  readonly maxConnections?: number
  /** The largest head of a request in bytes; a larger one is refused with 431. Default 16 KiB. */
  readonly headerLimitBytes?: number
  /** Milliseconds that a client may take to send the head of a request. Default 30,000. */
  readonly headerTimeoutMs?: number
  /**
   * Milliseconds that a client may take to send the body of a request, or each MiB of a file that it
   * uploads. Default 120,000.
   */
  readonly bodyTimeoutMs?: number
  /**
   * Milliseconds that a connection stays open without a request. Default 65,000: clients and load
   * balancers keep theirs for up to a minute, and the client must be the side that closes first.
   */
  readonly keepAliveMs?: number
}

/** Makes the server that a transport listens with. */
export function createHttpServer(options: ConnectionOptions): Server {
  const { tls, maxConnections, headerLimitBytes = 16 * 1024, headerTimeoutMs = 30_000 } = options
  const { bodyTimeoutMs = 120_000, keepAliveMs = 65_000 } = options
  const settings = {
    noDelay: true,
    keepAliveTimeout: keepAliveMs,
    maxHeaderSize: headerLimitBytes,
    headersTimeout: headerTimeoutMs,
    // it would count for uploads as well
    requestTimeout: 0,
    connectionsCheckingInterval: Math.min(headerTimeoutMs, 10_000),
  }
  const server =
    tls === undefined ? createPlainServer(settings) : createTlsServer({ ...settings, ...tls })
  if (maxConnections !== undefined) server.maxConnections = maxConnections
  server.on('timeout', closeUnlessHeard)
  limitBodyTime(server, bodyTimeoutMs)
  return server
}

/**
 * Closes a connection whose time is over, unless something has arrived on it: this process may have been
 * stopped or busy while the next request came, whose client would only see the connection reset.
 */
function closeUnlessHeard(socket: Socket): void {
  const { bytesRead } = socket
  afterReading(() => {
    if (socket.bytesRead === bytesRead) socket.destroy()
  })
}

/**
 * Tracks connections and the answers in progress on each; a client that pipelines has several. Closes
 * idle connections: `Server.close()` alone leaves a connection open if it never carried a request, or
 * if its last answer ends later.
 */
export class OpenConnections {
  readonly #answers = new Map<Socket, Set<ServerResponse>>()
  #closing = false

  constructor(server: Server) {
    const event = server instanceof TlsServer ? 'secureConnection' : 'connection'
    server.on(event, (socket: Socket) => {
      this.#answers.set(socket, new Set())
      socket.once('close', () => this.#answers.delete(socket))
    })
  }

  /** Notes a request on this connection. */
  begin(socket: Socket, response: ServerResponse): void {
    this.#answers.get(socket)?.add(response)
  }

  /** Notes that its answer is sent. */
  end(socket: Socket, response: ServerResponse): void {
    const answers = this.#answers.get(socket)
    answers?.delete(response)
    if (this.#closing && answers?.size === 0) socket.destroySoon()
  }

  /** Whether an answer is partly sent. */
  isAnswering(socket: Socket): boolean {
    return [...(this.#answers.get(socket) ?? [])].some(({ headersSent }) => headersSent)
  }

  /** Closes idle connections now, and each other one when its answers are sent. */
  close(): void {
    this.#closing = true
    for (const [socket, answers] of this.#answers) if (answers.size === 0) socket.destroySoon()
  }
}
