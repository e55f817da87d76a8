import { statSync } from 'node:fs'
import type { Logger } from '@cllm/core'
import { type ApiKey, hashKey, keyRing, type KeyRing } from '@cllm/http-koa'
import { readKeyFile } from './key-file.js'

/** Where keys come from. */
export interface KeySources {
  /** One key, of an admin. */
  readonly apiKey: string | null
  /** A file of keys. */
  readonly file: string | null
}

/** A key ring that follows its file until it is closed. */
export interface OpenKeyRing extends KeyRing {
  readonly close: () => void
}

/** How soon a change of the file counts. */
const pollMs = 1000

/**
 * Opens the keys that the configuration names; undefined when it names none. When the file changes it
 * is read again; while it cannot be read, the keys are what they were.
 *
 * @throws `invalid_configuration`
 */
export function openKeyRing(
  { apiKey, file }: KeySources,
  logger: Logger,
  interval = pollMs,
): OpenKeyRing | undefined {
  if (apiKey === null && file === null) return undefined
  const own: ApiKey[] =
    apiKey === null
      ? []
      : [{ name: 'api-key', tenant: 'default', role: 'admin', hash: hashKey(apiKey) }]
  if (file === null) return { ...keyRing(() => own), close: () => {} }
  // Taken before the file is read, so that no change falls between.
  let seen = versionOf(file)
  let keys = [...own, ...readKeyFile(file)]
  const poll = (): void => {
    const version = versionOf(file)
    if (version === seen) return
    seen = version
    try {
      keys = [...own, ...readKeyFile(file)]
      logger.info({ file, keys: keys.length }, 'the API keys were read again')
    } catch (error) {
      logger.error(
        { file, err: error },
        'the API keys cannot be read again; they stay as they were',
      )
    }
  }
  const timer = setInterval(poll, interval).unref()
  return { ...keyRing(() => keys), close: () => clearInterval(timer) }
}

/** Differs when the file does; undefined when there is none. */
function versionOf(file: string): string | undefined {
  const stats = statSync(file, { throwIfNoEntry: false })
  return stats && `${stats.mtimeMs} ${stats.size} ${stats.ino}`
}
