import { type Server, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { CllmError, type Logger } from '@cllm/core'
import type { RouteTable } from '../routes/route-table.js'
import type { OpenConnections } from './create-http-server.js'

interface ConnectionError extends Error {
  readonly code?: string
  /** The last bytes that the parser got. */
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
