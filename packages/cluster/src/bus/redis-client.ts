import { CllmError } from '@cllm/core'
import { ConnectionTimeoutError, createClient, ErrorReply, SocketTimeoutError } from '@redis/client'

/** A connection to a server. */
export type RedisClient = ReturnType<typeof connectTo>

/** How a server is reached. */
export interface RedisAddress {
  /** `redis://user:password@host:port/db`, or `rediss://` for TLS. */
  readonly url: string
  /** The authority in PEM format that a `rediss://` server's certificate is checked with. Default: the system's. */
  readonly ca?: string
}

/**
 * Milliseconds without a byte in either direction after which a connection that always has something to say is lost: its
 * server's machine may be gone without a word, or there is only a proxy that takes connections.
 */
export const socketLimitMs = 5000

/**
 * @param isPatient whether commands wait for the next connection; default: they fail without one
 * @param socketTimeoutMs after which an idle socket is closed, and opened again; default 0: never
 */
export function connectTo(
  { url, ca }: RedisAddress,
  { isPatient = false, socketTimeoutMs = 0 } = {},
) {
  const tls = ca === undefined ? {} : { tls: true as const, ca }
  return createClient({
    url,
    RESP: 2,
    // Envelopes wait for the next connection in the outbox, where they keep their order.
    disableOfflineQueue: !isPatient,
    // By default each command arms a signal that goes off 5 s later, answered or not: half of what an envelope costs.
    commandOptions: { timeout: 0 },
    socket: {
      ...tls,
      socketTimeout: socketTimeoutMs,
      reconnectStrategy: (tries) => Math.min(20 * 2 ** tries, 500),
    },
  })
}

/** Connects anew, to what the URL's name stands for now. What was under way fails, and can be sent again. */
export async function renew(client: RedisClient): Promise<void> {
  // It reconnects by itself already: there must be no second one that does.
  if (!client.isReady) return
  client.destroy()
  // It tries for as long as nobody closes it.
  await client.connect().catch(() => {})
}

/** The failure of a first connection. */
export function unreachable(url: string, error: unknown): CllmError {
  const why = withoutSecrets(`at ${url} cannot be reached: ${reasonOf(error)}`)
  const message = `The cluster ${why}`
  return new CllmError('cluster_unavailable', message, { cause: error })
}

/** Whether the server has not answered in time, and may do so on the next connection. */
export const isTimeout = (error: unknown): boolean =>
  error instanceof ConnectionTimeoutError || error instanceof SocketTimeoutError

/** The failure of a command. */
export function unanswered(error: unknown): CllmError {
  const refusal = refusalOf(error)
  const message =
    refusal === undefined
      ? `The cluster does not answer: ${reasonOf(error)}`
      : `The cluster refuses a command: ${refusal}`
  return new CllmError('cluster_unavailable', message, { cause: error })
}

/** Without what stands before the last @ of each URL: a password may have one, too. */
const withoutSecrets = (text: string): string => text.replaceAll(/\/\/\S*@/g, '//')

/** A connection to several addresses fails with one error for each. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  const refusal = refusalOf(error)
  if (refusal !== undefined) return refusal
  return error instanceof Error ? error.message || error.name : String(error)
}

/** What a server's refusals begin with that end some day, without anybody changing its settings. */
const temporary = ['OOM', 'READONLY', 'LOADING', 'BUSY', 'MASTERDOWN', 'MISCONF', 'CLUSTERDOWN']

/** What to do about a refusal, by what it says. */
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

/** Whether the server is there, refuses a command, and may take it later. */
export const isTemporary = (error: unknown): boolean =>
  error instanceof ErrorReply && temporary.some((word) => error.message.startsWith(word))

/**
 * Whether it is the answer of a server that is no primary any more. It stays connected: nobody but this process
 * notices that the name stands for another server now.
 */
export function isOfOldPrimary(error: unknown): boolean {
  // Within a script it is a part of the message.
  return error instanceof Error && /(^|-)(READONLY|MASTERDOWN|UNBLOCKED)\b/.test(error.message)
}

/** What a server's refusal, or one of its certificate, means; undefined for another kind of failure. */
export function refusalOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // A read that waits ends so when the server becomes a primary or a replica.
  const isReply = error instanceof ErrorReply && !error.message.startsWith('UNBLOCKED')
  if (!isReply && !error.message.includes('certificate')) return undefined
  const [, hint] = hints.find(([about]) => about.test(error.message)) ?? []
  return hint === undefined ? error.message : `${error.message} (${hint})`
}
