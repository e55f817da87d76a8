import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'

/**
 * Knows the connections that no request is under way on, and closes them. `Server.close()` alone
 * leaves those open that have never carried one, and those whose last answer ends later.
 */
export class IdleConnections {
  readonly #idle = new Set<Socket>()
  #closing = false

  constructor(server: Server) {
    const event = server instanceof TlsServer ? 'secureConnection' : 'connection'
    server.on(event, (socket: Socket) => {
      this.#idle.add(socket)
      socket.once('close', () => this.#idle.delete(socket))
    })
  }

  /** A request came on this connection. */
  begin(socket: Socket, response: ServerResponse): void {
    this.#idle.delete(socket)
    response.once('close', () => {
      if (this.#closing) socket.destroySoon()
      else if (!socket.destroyed) this.#idle.add(socket)
    })
  }

  /** Closes what is idle now, and every other connection when its answer has gone out. */
  close(): void {
    this.#closing = true
    for (const socket of this.#idle) socket.destroySoon()
  }
}
