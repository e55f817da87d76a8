import { CllmError } from '@cllm/core'
import { createClient } from '@redis/client'
import { refusalOf } from './refusals.js'

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
function withoutSecrets(text: string): string {
  return text.replaceAll(/\/\/\S*@/g, '//')
}

/** A connection to several addresses fails with one error for each. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  const refusal = refusalOf(error)
  if (refusal !== undefined) return refusal
  return error instanceof Error ? error.message || error.name : String(error)
}
