import { CllmError, type Logger } from '@cllm/core'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createServer as createPlainServer, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net'
import { setImmediate as afterReading, setTimeout as after } from 'node:timers'
import { Server as TlsServer } from 'node:tls'
import type { RouteTable } from '../routes/route-table.js'

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE:
    'another program listens there. Stop it, or choose another port (0 takes any free one)',
  EACCES:
    'that is not allowed to this user. Choose a port from 1024 up, or run with the rights for it',
  EADDRNOTAVAIL:
    'this machine has no such address. Choose one of its own, 127.0.0.1, or 0.0.0.0 for all',
  ENOTFOUND: 'there is no host of that name. Check its spelling, or give an address',
  EAI_AGAIN: 'the name of the host cannot be looked up. Check its spelling, or give an address',
  ERR_SOCKET_BAD_PORT: 'that is no port. Choose one from 0 to 65535',
}

/** Explains why a server cannot listen, and what to do about it. */
function listenError(error: NodeJS.ErrnoException, host: string, port: number): CllmError {
  const reason = reasons[error.code ?? ''] ?? error.message
  return new CllmError('address_in_use', `Cannot listen on host ${host}, port ${port}: ${reason}`, {
    details: { host, port },
    cause: error,
  })
}

/** Where a server listens. */
export type Listening = Awaited<ReturnType<typeof listenAt>>

/**
 * Listens on all these addresses, on the same port; 0: any port that is free at the first address.
 * @throws CllmError `address_in_use` if it cannot listen on one of them; it then listens on none
 */
export async function listenAt(
  server: Server,
  [first, ...others]: readonly string[],
  wanted: number,
) {
  const port = await listen(server, first!, wanted)
  const listeners: NetServer[] = [server]
  /** Accepts no new connections; resolves when the open ones have ended. */
  const close = async (): Promise<void> => {
    const closed = listeners.map(async (listener) => await once(listener, 'close'))
    for (const listener of listeners) listener.close()
    await Promise.all(closed)
  }
  try {
    for (const host of others) {
      // passes connections on, with the options that Node's HTTP server sets for its own
      const other = createServer({ noDelay: true }, (socket) => server.emit('connection', socket))
      await listen(other, host, port)
      other.on('error', (error) => server.emit('error', error))
      listeners.push(other)
    }
  } catch (error) {
    await close()
    throw error
  }
  return { port, close }
}

async function listen(server: NetServer, host: string, port: number): Promise<number> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    throw listenError(error as Error, host, port)
  }
  return (server.address() as AddressInfo).port
}

/** The bytes of an upload that must arrive within the time limit of other bodies. */
const uploadBytes = 1024 * 1024

const uploads = new WeakSet<IncomingMessage>()

/** Marks a request's body as a file, which may take long as long as bytes keep arriving. */
export function allowUpload(request: IncomingMessage): void {
  uploads.add(request)
}

/**
 * Refuses bodies that take longer than `limitMs`; an upload has this time for each MiB. Node's
 * `requestTimeout` does not allow such an exception.
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
      // a request that was answered early may still be sending its body
      if (request.complete || socket.destroyed) clearTimeout(timer)
    })
  })
}

/** Limits and TLS of connections. */
export interface ConnectionOptions {
  /** Certificate chain and private key in PEM; with them the server speaks HTTPS. */
  readonly tls?: { readonly cert: string | Buffer; readonly key: string | Buffer }
  /** The most open connections; further ones are closed. Default: no limit. */
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
   * Milliseconds that a connection stays open without a request. Default 65,000, as the client must be the side
   * that closes first, and clients and load balancers keep idle connections for up to a minute.
   */
  readonly keepAliveMs?: number
}

/** Makes the server that a transport listens with. */
export function createHttpServer(options: ConnectionOptions): Server {
  const { tls, headerLimitBytes = 16 * 1024, headerTimeoutMs = 30_000 } = options
  const { bodyTimeoutMs = 120_000, keepAliveMs = 65_000 } = options
  const settings = {
    noDelay: true,
    keepAliveTimeout: keepAliveMs,
    maxHeaderSize: headerLimitBytes,
    headersTimeout: headerTimeoutMs,
    // off, as it would limit uploads, too
    requestTimeout: 0,
    // guardGate refuses these requests instead, as Node's refusal has no body
    requireHostHeader: false,
    connectionsCheckingInterval: Math.min(headerTimeoutMs, 10_000),
  }
  const server =
    tls === undefined ? createPlainServer(settings) : createTlsServer({ ...settings, ...tls })
  server.on('timeout', closeUnlessHeard)
  limitBodyTime(server, bodyTimeoutMs)
  return server
}

/**
 * Closes a connection that timed out, unless bytes are waiting to be read: the next request may have arrived while
 * this process was suspended or busy, and its client would only see a reset connection.
 */
function closeUnlessHeard(socket: Socket): void {
  const { bytesRead } = socket
  afterReading(() => {
    if (socket.bytesRead === bytesRead) socket.destroy()
  })
}

/**
 * Tracks connections and the answers in progress on each; with pipelining there are several. Closes
 * idle connections: `Server.close()` alone leaves a connection open if it never carried a request, or
 * if its last answer ends later.
 */
export class OpenConnections {
  readonly #answers = new Map<Socket, Set<ServerResponse>>()
  /** All connections, including those in the TLS handshake, which Node's server does not close. */
  readonly #accepted = new Set<Socket>()
  #closing = false

  /** @param most - the most open connections of all addresses together; further ones are closed */
  constructor(server: Server, most = Infinity) {
    server.on('connection', (socket: Socket) => {
      this.#accepted.add(socket)
      socket.once('close', () => this.#accepted.delete(socket))
      if (this.#accepted.size > most) socket.destroy()
    })
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

  /** Notes that an answer on this connection is sent. */
  end(socket: Socket, response: ServerResponse): void {
    const answers = this.#answers.get(socket)
    answers?.delete(response)
    if (this.#closing && answers?.size === 0) socket.destroySoon()
  }

  /** Whether an answer is partly sent. */
  isAnswering(socket: Socket): boolean {
    return [...(this.#answers.get(socket) ?? [])].some(({ headersSent }) => headersSent)
  }

  /** Closes idle connections now, and each other one once its answers are sent. */
  close(): void {
    this.#closing = true
    for (const [socket, answers] of this.#answers) if (answers.size === 0) socket.destroySoon()
  }

  /** Closes all connections now, even in the middle of answers. */
  cut(): void {
    for (const socket of this.#accepted) socket.destroy()
  }
}

interface ConnectionError extends Error {
  readonly code?: string
  /** The last bytes that the parser received. */
  readonly rawPacket?: Buffer
}

/**
 * Answers malformed HTTP, oversized heads and slow requests like any other bad request, with a body,
 * and closes the connection. Node itself would answer without a body.
 */
export function refuseBadHttp(
  server: Server,
  connections: OpenConnections,
  table: RouteTable,
  logger: Logger,
): void {
  server.on('clientError', (error: ConnectionError, socket: Socket) => {
    const isGone = error.code === 'ECONNRESET' || error.code === 'EPIPE' || !socket.writable
    if (isGone || connections.isAnswering(socket)) return socket.destroy(error)
    const refusal = explain(error)
    logger.debug({ code: refusal.code, refusal: refusal.message }, 'request refused')
    const { errors } = table.match('GET', pathOf(error.rawPacket))
    const body = JSON.stringify(errors.body(refusal))
    const { status } = refusal
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\n` +
        'Content-Type: application/json; charset=utf-8\r\n' +
        `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
    socket.destroySoon()
  })
}

function explain({ code, message }: ConnectionError): CllmError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new CllmError('head_too_large', 'The head of the request is too large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new CllmError('request_timeout', 'The request did not come in time')
    default:
      return new CllmError('invalid_http', `Expected HTTP/1.1, instead got: ${message}`)
  }
}

/** The request's path, if the last packet contains it. */
function pathOf(packet: Buffer | undefined): string {
  const [, path = ''] = /^[A-Z]+ (\/[^\s?]*)/.exec(packet?.toString('latin1') ?? '') ?? []
  return path
}
