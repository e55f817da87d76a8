import { CllmError } from '@cllm/core'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, createServer, type Server as NetServer } from 'node:net'

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
