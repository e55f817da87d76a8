import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, createServer, type Server as NetServer } from 'node:net'
import { listenError } from './listen-error.js'

/** Where a server listens. */
export interface Listening {
  readonly port: number
  /** Takes no new connections. */
  close(): void
}

/**
 * Listens on all these addresses, on one port: 0 takes a free one of the first.
 * @throws CllmError `address_in_use` when it cannot listen on one of them, and then does on none
 */
export async function listenAt(
  server: Server,
  [first, ...others]: readonly string[],
  wanted: number,
): Promise<Listening> {
  const port = await listen(server, first!, wanted)
  const listeners: NetServer[] = [server]
  const close = (): void => {
    for (const listener of listeners) listener.close()
  }
  try {
    for (const host of others) {
      // as Node's HTTP servers take theirs
      const other = createServer({ noDelay: true }, (socket) => server.emit('connection', socket))
      await listen(other, host, port)
      listeners.push(other)
    }
  } catch (error) {
    close()
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
