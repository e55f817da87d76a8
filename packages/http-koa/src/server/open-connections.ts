import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'

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
