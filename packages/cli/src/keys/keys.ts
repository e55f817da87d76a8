import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, realpathSync, type Stats, statSync } from 'node:fs'
import { attempt, CllmError, type Logger } from '@cllm/core'
import {
  type ApiKey,
  hashKey,
  parseKeys,
  type KeyStore,
  type LimitChanges,
  keyRing,
  type ListedKeys,
} from '@cllm/http-koa'
import { orInvalid } from '../config/messages.js'
import { readNamed } from '../config/paths.js'
import { writeWhole } from '../models/model-files.js'
import { withLock } from '../models/fetch/file-lock.js'

/**
 * Reads the keys in a file.
 *
 * @throws `invalid_configuration` for a file that is missing or not a key file
 */
export function readKeyFile(file: string): readonly ApiKey[] {
  const advice = '. `cllm keys add NAME --api-keys FILE` writes them'
  const text = orInvalid(() => readNamed(file), 'the keys cannot be read', advice)
  return parseKeys(text, file)
}

/**
 * Changes the keys in a file, which need not exist yet. Readers see the old or the new file. The file keeps its
 * permissions and, if this user may set it, its owner: an administrator's change must not lock the server out.
 *
 * @throws `invalid_configuration` when the file cannot be read or written
 */
export async function updateKeyFile(
  file: string,
  signal: AbortSignal,
  change: (keys: readonly ApiKey[]) => readonly ApiKey[],
): Promise<void> {
  try {
    // The target of a symbolic link, so that the link stays.
    const path = statSync(file, { throwIfNoEntry: false }) ? realpathSync(file) : file
    await withLock(path, { signal }, async () => {
      const before = statSync(path, { throwIfNoEntry: false })
      const keys = change(before ? readKeyFile(path) : [])
      const text = `${JSON.stringify({ keys }, undefined, 2)}\n`
      await writeWhole(path, text, (part) => before && takeRights(part, before))
    })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (CllmError.isInstance(cause) || code === undefined || signal.aborted) throw cause
    const problem = `the keys cannot be written: ${message}`
    throw new CllmError('invalid_configuration', problem, { cause })
  }
}

/**
 * Gives a file the owner and group of another file, as far as this user may, and then its mode; without the group's
 * permissions if the group could not be set.
 */
export function takeRights(
  file: string,
  { uid, gid, mode }: Pick<Stats, 'uid' | 'gid' | 'mode'>,
  chown = chownSync,
): void {
  const own = statSync(file)
  const takes = (owner: number): boolean =>
    attempt(() => {
      if (own.uid !== owner || own.gid !== gid) chown(file, owner, gid)
      return true
    }, false)
  // Only root may set the owner; a member may set the group.
  const hasGroup = takes(uid) || takes(own.uid)
  chmodSync(file, mode & (hasGroup ? 0o777 : 0o707))
}

/** Creates a key: its secret, which is shown once, and the entry for the file. */
export function createKey(about: Omit<ApiKey, 'hash'>): { secret: string; key: ApiKey } {
  const secret = `cllm_${randomBytes(32).toString('base64url')}`
  return { secret, key: { ...about, hash: hashKey(secret) } }
}

/** Where keys are kept. */
interface KeyPlace {
  readonly read: () => Promise<readonly ApiKey[]>
  /** Changes the keys; if `change` throws, they stay as they were. */
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

/** A key with changed limits; null removes one. */
function limited(key: ApiKey, changes: LimitChanges): ApiKey {
  const all = Object.entries({ ...key, ...changes }).filter(([, value]) => value !== null)
  return Object.fromEntries(all) as unknown as ApiKey
}

const wrongName = (problem: string): CllmError =>
  new CllmError('invalid_request', `name: ${problem}`, { details: { field: 'name' } })

/** The sources of API keys. */
export interface KeySources {
  /** One key with the admin role. */
  readonly apiKey: string | null
  /** A file of keys. */
  readonly file: string | null
}

/** A key ring that watches its file until it is closed. */
export interface OpenKeyRing extends ListedKeys {
  /** Changes the keys; absent where they are in no file and no cluster. */
  readonly store?: KeyStore
  readonly close: () => void
}

/** Milliseconds to wait while another process changes the file. */
const lockMs = 10_000

/** Milliseconds between two checks of the file for changes. */
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
      // Only after the file was read: an unreadable one is tried again, as new permissions would not change its
      // version.
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
  return stats?.isFile() ? `${stats.mtimeMs} ${stats.size} ${stats.ino}` : undefined
}

/** The key that is set by itself, without a file, if any. */
function ownKeys(apiKey: string | null): ApiKey[] {
  if (apiKey === null) return []
  return [{ name: 'api-key', tenant: 'default', role: 'admin', hash: hashKey(apiKey) }]
}
