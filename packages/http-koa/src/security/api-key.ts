import { CllmError } from '@cllm/core'
import { createHash, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { parsedJson } from '../fields/fields.js'

/**
 * The rights of a key: `user` generates, `metrics` only reads the metrics, `admin` also changes the server and reads
 * everything.
 */
export const keyRoles = ['user', 'metrics', 'admin'] as const

/** One of {@link keyRoles}. */
export type KeyRole = (typeof keyRoles)[number]

const limit = z.int().positive().optional()

const name = z.string().min(1).max(256)
const key = z.strictObject({
  name,
  tenant: name,
  role: z.enum(keyRoles),
  hash: z.string().regex(/^[0-9a-f]{64}$/, 'expected 64 hex digits'),
  requestsPerMinute: limit,
  tokensPerMinute: limit,
  tokensPerMonth: limit,
})
const schema = z.strictObject({ keys: z.array(key) })

/** The keys in the text of a key file. Throws `invalid_configuration`, naming the file and the place. */
export function parseKeys(text: string, file: string): readonly ApiKey[] {
  const value = parsedJson(text)
  if (value === undefined) {
    throw new CllmError('invalid_configuration', `${file}: expected JSON with keys`)
  }
  const result = schema.safeParse(value)
  if (result.success) return result.data.keys as readonly ApiKey[]
  const problems = result.error.issues.map(
    ({ path, message }) => `${file}: ${path.join('.') || 'the file'}: ${message}`,
  )
  throw new CllmError('invalid_configuration', problems.join('\n'), { details: { problems } })
}

/** Changes of a key's limits; null: back to the server's limit, if any. */
export type LimitChanges = { readonly [Limit in keyof KeyLimits]?: number | null }

/** The store of a server's keys, for admins who change them while it runs. */
export interface KeyStore {
  /** The keys, with their hashes and without their secrets. */
  readonly list: () => Promise<readonly ApiKey[]>
  /**
   * Adds a key, which is valid at once.
   *
   * @returns its secret, which is not stored
   * @throws `invalid_request` if there already is a key of this name
   */
  readonly add: (key: Omit<ApiKey, 'hash'>) => Promise<string>
  /**
   * Changes limits of a key at once; null removes a limit, absent limits stay.
   *
   * @returns the changed key
   * @throws `invalid_request` if there is no key of this name
   */
  readonly limit: (name: string, limits: LimitChanges) => Promise<ApiKey>
  /**
   * Removes a key, which becomes invalid at once.
   *
   * @throws `invalid_request` if there is no key of this name
   */
  readonly remove: (name: string) => Promise<void>
}

/** How much a key may be used. */
export interface KeyLimits {
  /** Requests per 60 seconds. Default: the server's limit. */
  readonly requestsPerMinute?: number
  /** Tokens per 60 seconds, prompts and answers together. Default: the server's limit. */
  readonly tokensPerMinute?: number
  /** Tokens per calendar month (UTC), which a `usageProtocol` counts. Default: no limit. */
  readonly tokensPerMonth?: number
}

/** A valid API key, without its secret. */
export interface ApiKey extends KeyLimits {
  /** Its name in logs. */
  readonly name: string
  /** The tenant of its requests. Several keys may belong to one tenant. */
  readonly tenant: string
  readonly role: KeyRole
  /** SHA-256 of the key, 64 hex digits. */
  readonly hash: string
}

/** The valid API keys. They may change while the server runs. */
export interface KeyRing<Answer = ApiKey | undefined | Promise<ApiKey | undefined>> {
  /** The key with this secret, or undefined. */
  find(secret: string): Answer
  /** The key with this hash, or undefined: so work that runs later, such as a batch, checks that it is still valid. */
  withHash(hash: string): Answer
}

/** Keys that are all at hand. */
export type ListedKeys = KeyRing<ApiKey | undefined>

/** Applies the limits of a key to work that it requested and that runs later. */
export interface KeyAccess {
  readonly keys: KeyRing
  /** Counts a request of a key; throws `rate_limited` over a limit, with a `retryAfterMs`. */
  readonly limit: (key: ApiKey) => Promise<void>
}

/**
 * The stored hash of a key. Generated keys are 256 random bits, so a slow hash would add no protection; the hash of a
 * key that an operator chose is kept in memory only.
 */
export const hashKey = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/** A ring of these keys. It compares a secret with all keys, so that the time does not depend on the result. */
export function keyRing(keys: () => readonly ApiKey[]): ListedKeys {
  return {
    find(secret) {
      const given = Buffer.from(hashKey(secret), 'hex')
      let found: ApiKey | undefined
      for (const key of keys()) {
        if (timingSafeEqual(given, Buffer.from(key.hash, 'hex'))) found = key
      }
      return found
    },
    withHash: (hash) => keys().find((key) => key.hash === hash),
  }
}
