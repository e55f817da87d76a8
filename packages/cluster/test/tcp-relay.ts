import { connect, createServer, type Server, type Socket } from 'node:net'

/** A name that stands for one server, and later for another one; what it carries can be stopped. */
export class TcpRelay {
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** Commands, as they are written, at whose next occurrences it cuts the connection. */
  readonly cutAt: string[] = []

  private constructor(
    private readonly server: Server,
    private port: number,
  ) {
    server.on('connection', (client) => this.#carry(client))
  }

  /** Carries connections to a port of this machine. */
  static async start(port: number): Promise<TcpRelay> {
    const server = createServer()
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    return new TcpRelay(server, port)
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as { port: number }).port}`
  }

  /** Connections that it carries. */
  get size(): number {
    return this.#pairs.size
  }

  /** Those of now stay where they are, further ones go to this port. */
  stayAndGo(port: number): void {
    this.port = port
  }

  /** Nothing comes through the connections of now any more, and nobody is told. */
  freeze(): void {
    for (const [client, server] of this.#pairs) {
      for (const socket of [client, server]) socket.unpipe().pause()
    }
  }

  /** Ends it, and what it carries. */
  close(): void {
    this.server.close()
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy()
  }

  #carry(client: Socket): void {
    const server = connect(this.port, '127.0.0.1')
    const pair = [client, server] as const
    this.#pairs.add(pair)
    const end = () => {
      this.#pairs.delete(pair)
      for (const socket of pair) socket.destroy()
    }
    for (const socket of pair) socket.on('error', end).on('close', end)
    client.on('data', (data: Buffer) => {
      const index = this.cutAt.findIndex((command) => data.includes(command))
      if (index < 0) return
      this.cutAt.splice(index, 1)
      end()
    })
    client.pipe(server).pipe(client)
  }
}
