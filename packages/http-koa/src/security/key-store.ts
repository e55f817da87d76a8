import type { ApiKey, KeyLimits } from './api-key.js'

/** Changes of a key's limits; null: the server's limit, or none. */
export type LimitChanges = { readonly [Limit in keyof KeyLimits]?: number | null }

/** Where the keys of a server are kept, for admins who change them while it runs. */
export interface KeyStore {
  /** The keys, with their hashes and without their secrets. */
  readonly list: () => Promise<readonly ApiKey[]>
  /**
   * Adds a key, which is valid from then on.
   *
   * @returns its secret, which is kept nowhere
   * @throws `invalid_request` where there is a key of this name
   */
  readonly add: (key: Omit<ApiKey, 'hash'>) => Promise<string>
  /**
   * Changes limits of a key from now on; null takes one away, what is absent stays.
   *
   * @returns the key as it is then
   * @throws `invalid_request` where there is none of this name
   */
  readonly limit: (name: string, limits: LimitChanges) => Promise<ApiKey>
  /**
   * Removes a key, which is valid no longer.
   *
   * @throws `invalid_request` where there is none of this name
   */
  readonly remove: (name: string) => Promise<void>
}
