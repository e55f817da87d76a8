import { CllmError } from '@cllm/core'
import { ConnectionTimeoutError, createClient, ErrorReply, SocketTimeoutError } from '@redis/client'

/** A connection to a server. */
export type RedisClient = ReturnType<typeof connectTo>

/** The address of a server. */
export interface RedisAddress {
  /** `redis://user:password@host:port/db`, or `rediss://` for TLS. */
  readonly url: string
  /** The certificate authority in PEM format for a `rediss://` server. Default: the system's. */
  readonly ca?: string
}

/**
 * Milliseconds without a byte in either direction after which a connection with constant traffic counts as lost: the
 * server's machine may have vanished, or only a proxy accepts connections.
 */
export const socketLimitMs = 5000

/**
 * Makes a client, which is not connected yet.
 *
 * @param isPatient whether commands wait for the next connection; default: they fail without one
 * @param socketTimeoutMs milliseconds after which an idle socket is closed and reopened; default 0: never
 * @param pingMs milliseconds between pings; default 0: none
 */
export function connectTo(
  { url, ca }: RedisAddress,
  { isPatient = false, socketTimeoutMs = 0, pingMs = 0 } = {},
) {
  const tls = ca === undefined ? {} : { tls: true as const, ca }
  return createClient({
    url,
    RESP: 2,
    // Envelopes wait for the next connection in the MailboxWriter, where they keep their order.
    disableOfflineQueue: !isPatient,
    pingInterval: pingMs,
    // By default each command starts a 5 s timer, even if it is answered: half of the cost of an envelope.
    commandOptions: { timeout: 0 },
    socket: {
      ...tls,
      socketTimeout: socketTimeoutMs,
      reconnectStrategy: (tries) => Math.min(20 * 2 ** tries, 500),
    },
  })
}

/** Reconnects to the server that the URL's name points to now. Commands in progress fail, and can be sent again. */
export async function renew(client: RedisClient): Promise<void> {
  // It is reconnecting already, which must not happen twice.
  if (!client.isReady) return
  client.destroy()
  // It retries until it is closed.
  await client.connect().catch(() => {})
}

/** The error for a first connection that failed. */
export function unreachable(url: string, error: unknown): CllmError {
  const message = withoutSecrets(`The cluster at ${url} cannot be reached: ${reasonOf(error)}`)
  return new CllmError('cluster_unavailable', message, { cause: error })
}

/** Whether the server did not answer in time, and may do so on the next connection. */
export const isTimeout = (error: unknown): boolean =>
  error instanceof ConnectionTimeoutError || error instanceof SocketTimeoutError

/** The error for a command that failed. */
export function unanswered(error: unknown): CllmError {
  const refusal = refusalOf(error)
  const message =
    refusal === undefined
      ? `The cluster does not answer: ${reasonOf(error)}`
      : `The cluster refuses a command: ${refusal}`
  return new CllmError('cluster_unavailable', message, { cause: error })
}

/** Removes user and password from each URL: everything before the last @, as a password may contain one. */
const withoutSecrets = (text: string): string => text.replaceAll(/\/\/\S*@/g, '//')

/** The message of an error; a connection to several addresses fails with one error for each. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  const refusal = refusalOf(error)
  if (refusal !== undefined) return refusal
  return error instanceof Error ? error.message || error.name : String(error)
}

/** The first words of refusals that end without a change of the server's settings. */
const temporary = ['OOM', 'READONLY', 'LOADING', 'BUSY', 'MASTERDOWN', 'MISCONF', 'CLUSTERDOWN']

/** Hints for refusals, by a pattern of their messages. */
const hints: readonly (readonly [about: RegExp, hint: string])[] = [
  [/^OOM/, 'it has no memory left: raise its maxmemory'],
  [/^READONLY/, 'it is a replica: the URL must name the primary'],
  [/^MISCONF/, 'it cannot write to its disk'],
  [/^NOPERM/, 'its user lacks a right that deploy/redis/users.acl has'],
  [/^(WRONGPASS|NOAUTH|ERR AUTH)/, 'the URL has the wrong user or password, or none'],
  [
    /certificate(?! has expired| is not yet valid)/,
    '--cluster-ca must name who has signed it, and the URL be of a name in it',
  ],
  [/unknown command|syntax error/i, 'Redis 6.2 or later, or Valkey, is needed'],
]

/** Whether the server refuses a command for now, and may accept it later. */
export const isTemporary = (error: unknown): boolean =>
  error instanceof ErrorReply && temporary.some((word) => error.message.startsWith(word))

/**
 * Whether an error is from a server that is no longer the primary. Such a server does not close connections, so this
 * process has to find out that the name points to another server now.
 */
export function isOfOldPrimary(error: unknown): boolean {
  // Errors within scripts contain the word in the middle of the message.
  return error instanceof Error && /(^|-)(READONLY|MASTERDOWN|UNBLOCKED)\b/.test(error.message)
}

/** Explains a server's refusal, or a refused certificate; undefined for other errors. */
export function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // A blocked read ends with this error when the server becomes a primary or a replica.
  const isReply = error instanceof ErrorReply && !error.message.startsWith('UNBLOCKED')
  if (!isReply && !error.message.includes('certificate')) return undefined
  const [, hint] = hints.find(([about]) => about.test(error.message)) ?? []
  return hint === undefined ? error.message : `${error.message} (${hint})`
}
