import { CllmError } from '@cllm/core'

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
export function listenError(error: NodeJS.ErrnoException, host: string, port: number): CllmError {
  const reason = reasons[error.code ?? ''] ?? error.message
  return new CllmError('address_in_use', `Cannot listen on host ${host}, port ${port}: ${reason}`, {
    details: { host, port },
    cause: error,
  })
}
