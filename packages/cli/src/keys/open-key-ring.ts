import { statSync } from 'node:fs'
import type { Logger } from '@cllm/core'
import { type ApiKey, hashKey, keyRing, type KeyRing, type KeyStore } from '@cllm/http-koa'
import { readKeyFile, updateKeyFile } from './key-file.js'
import { keyStore } from './key-store.js'

/** The sources of API keys. */
export interface KeySources {
  /** One key with the admin role. */
  readonly apiKey: string | null
  /** A file of keys. */
  readonly file: string | null
}

/** A key ring that watches its file until it is closed. */
export interface OpenKeyRing extends KeyRing {
  /** Changes the keys; absent where they are in no file and no cluster. */
  readonly store?: KeyStore
  readonly close: () => void
}

/** Milliseconds to wait while another process changes the file. */
const lockMs = 10_000

/** How often the file is checked for changes. */
const pollMs = 1000

/**
 * Opens the configured keys; undefined when there are none. Reads the file again when it changes;
 * while it cannot be read, the previous keys stay valid.
 *
 * @throws `invalid_configuration`
 */
export function openKeyRing(
  { apiKey, file }: KeySources,
  logger: Logger,
  interval = pollMs,
): OpenKeyRing | undefined {
  if (apiKey === null && file === null) return undefined
  const own = ownKeys(apiKey)
  if (file === null) return { ...keyRing(() => own), close: () => {} }
  // Read the version before the file, so that no change is missed.
  let seen = versionOf(file)
  let keys = [...own, ...readKeyFile(file)]
  let told: string | undefined
  const poll = (): void => {
    try {
      const version = versionOf(file)
      if (version === seen) return
      keys = [...own, ...readKeyFile(file)]
      // Only now: a file that cannot be read is tried again, as its rights may change and nothing else.
      seen = version
      told = undefined
      logger.info({ file, keys: keys.length }, 'reloaded the API keys')
    } catch (error) {
      const { message } = error as Error
      if (message === told) return
      told = message
      logger.error({ file, err: error }, 'the API keys cannot be reloaded; they stay as they were')
    }
  }
  const timer = setInterval(poll, interval).unref()
  const store = keyStore({
    read: async () => readKeyFile(file),
    async update(change) {
      await updateKeyFile(file, AbortSignal.timeout(lockMs), change)
      poll()
    },
  })
  return { ...keyRing(() => keys), store, close: () => clearInterval(timer) }
}

/** A value that changes with the file; undefined when there is no file. */
function versionOf(file: string): string | undefined {
  const stats = statSync(file, { throwIfNoEntry: false })
  return stats && `${stats.mtimeMs} ${stats.size} ${stats.ino}`
}

/** The key that is set itself, if one is. */
function ownKeys(apiKey: string | null): ApiKey[] {
  if (apiKey === null) return []
  return [{ name: 'api-key', tenant: 'default', role: 'admin', hash: hashKey(apiKey) }]
}
