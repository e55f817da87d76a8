import type { ServerClient } from './server-client.js'

/** A model of a server, and what it does. */
export interface ServedModelState {
  readonly name: string
  /** `unloaded`, `loading`, `loaded` or `unloading`. */
  readonly state: string
  /** Of its weights; null while it was never in memory. */
  readonly sizeBytes: number | null
  /** Requests that run or wait in its engine. */
  readonly users: number
  /** Requests that wait for it to be loaded. */
  readonly waiting: number
  /** When it leaves memory if nobody uses it, as ISO 8601; null: never. */
  readonly expiresAt: string | null
}

interface Listed {
  readonly id: string
  readonly status: { readonly value: string }
  readonly size_bytes: number | null
  readonly users: number
  readonly waiting: number
  readonly expires_at: string | null
}

/** The models of a server with their states, from `GET /models`. */
export async function readModels(
  client: ServerClient,
  signal: AbortSignal,
): Promise<readonly ServedModelState[]> {
  const { data } = (await client.get('/models', signal)) as { readonly data: readonly Listed[] }
  return data.map(
    ({ id, status, size_bytes: sizeBytes, users, waiting, expires_at: expiresAt }) => ({
      name: id,
      state: status.value,
      sizeBytes,
      users,
      waiting,
      expiresAt,
    }),
  )
}
