import { createHash, timingSafeEqual } from 'node:crypto'

/** What a key may: `user` generates, `admin` also changes the server and reads everything. */
export type KeyRole = 'user' | 'admin'

/** A key that is let in, without the key itself. */
export interface ApiKey {
  /** For people and logs. */
  readonly name: string
  /** Whose requests these are. Several keys may belong to one tenant. */
  readonly tenant: string
  readonly role: KeyRole
  /** SHA-256 of the key, 64 hex digits. */
  readonly hash: string
  /** Requests in 60 seconds; by default those of the server. */
  readonly requestsPerMinute?: number
  /** Tokens in 60 seconds, prompts and answers together; by default those of the server. */
  readonly tokensPerMinute?: number
}

/** Knows which keys are let in. They may change while the server runs. */
export interface KeyRing {
  /** The key of this text, or undefined. */
  find(secret: string): ApiKey | undefined
}

/**
 * What is kept of a key. Keys are 256 random bits, so that a slow hash would protect nothing more;
 * one that somebody made up is kept in memory only.
 */
export function hashKey(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** Compares with every key, in the same time whichever it is or none. */
export function keyRing(keys: () => readonly ApiKey[]): KeyRing {
  return {
    find(secret) {
      const given = Buffer.from(hashKey(secret), 'hex')
      let found: ApiKey | undefined
      for (const key of keys()) {
        if (timingSafeEqual(given, Buffer.from(key.hash, 'hex'))) found = key
      }
      return found
    },
  }
}
