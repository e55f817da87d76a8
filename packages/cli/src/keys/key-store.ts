import { CllmError } from '@cllm/core'
import type { ApiKey, KeyStore, LimitChanges } from '@cllm/http-koa'
import { createKey } from './key-file.js'

/** Where keys are kept. */
export interface KeyPlace {
  readonly read: () => Promise<readonly ApiKey[]>
  /** What `change` throws leaves them as they were. */
  readonly update: (change: (keys: readonly ApiKey[]) => readonly ApiKey[]) => Promise<void>
}

/** Changes the keys in a place. */
export const keyStore = ({ read, update }: KeyPlace): KeyStore => ({
  list: read,
  async add(about) {
    const { secret, key } = createKey(about)
    await update((keys) => {
      if (keys.some(({ name }) => name === key.name)) {
        throw wrongName(`there is a key "${key.name}" already; once revoked, it can be made anew`)
      }
      return [...keys, key]
    })
    return secret
  },
  async limit(name, changes) {
    let changed: ApiKey | undefined
    await update((keys) => {
      const all = keys.map((key) => (key.name === name ? limited(key, changes) : key))
      changed = all.find((key) => key.name === name)
      if (changed === undefined) throw wrongName(`there is no key "${name}"`)
      return all
    })
    return changed!
  },
  async remove(name) {
    await update((keys) => {
      const rest = keys.filter((key) => key.name !== name)
      if (rest.length === keys.length) throw wrongName(`there is no key "${name}"`)
      return rest
    })
  },
})

/** A key with other limits; null takes one away. */
function limited(key: ApiKey, changes: LimitChanges): ApiKey {
  const all = Object.entries({ ...key, ...changes }).filter(([, value]) => value !== null)
  return Object.fromEntries(all) as unknown as ApiKey
}

const wrongName = (problem: string): CllmError =>
  new CllmError('invalid_request', `name: ${problem}`, { details: { field: 'name' } })
