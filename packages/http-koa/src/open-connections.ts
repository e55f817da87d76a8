import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'

/**
 * Knows the connections and the answers under way on each, which are several where a client sends
 * requests without waiting. Closes those without any: `Server.close()` alone leaves those open that
 * have never carried a request, and those whose last answer ends later.
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

  /** A request came on this connection. */
  begin(socket: Socket, response: ServerResponse): void {
    const answers = this.#answers.get(socket)
    answers?.add(response)
    response.once('close', () => {
      answers?.delete(response)
      if (this.#closing && answers?.size === 0) socket.destroySoon()
    })
  }

  /** Whether a part of an answer has gone out that is not whole yet. */
  isAnswering(socket: Socket): boolean {
    return [...(this.#answers.get(socket) ?? [])].some(({ headersSent }) => headersSent)
  }

  /** Closes what is idle now, and every other connection when its answers have gone out. */
  close(): void {
    this.#closing = true
    for (const [socket, answers] of this.#answers) if (answers.size === 0) socket.destroySoon()
  }
}
