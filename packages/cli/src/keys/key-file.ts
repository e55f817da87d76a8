import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  readFileSync,
  realpathSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { CllmError } from '@cllm/core'
import { type ApiKey, hashKey, parseKeys } from '@cllm/http-koa'
import { orInvalid } from '../config/messages.js'
import { replaceFile } from '../models/replace-file.js'
import { withLock } from '../models/fetch/with-lock.js'

/**
 * Reads the keys in a file.
 *
 * @throws `invalid_configuration` for a file that is missing or not a key file
 */
export function readKeyFile(file: string): readonly ApiKey[] {
  const text = orInvalid(
    () => readFileSync(file, 'utf8'),
    (reason) =>
      `the keys cannot be read: ${reason}. \`cllm keys add NAME --api-keys FILE\` writes them`,
  )
  return parseKeys(text, file)
}

/**
 * Changes the keys in a file, which need not exist yet. Readers see the old or the new file. It keeps its rights and,
 * where this user may set it, its owner: an administrator's change must not lock the server out.
 *
 * @throws `invalid_configuration` when the file cannot be read or written
 */
export async function updateKeyFile(
  file: string,
  signal: AbortSignal,
  change: (keys: readonly ApiKey[]) => readonly ApiKey[],
): Promise<void> {
  try {
    // Behind a symbolic link, so that the link stays.
    const path = statSync(file, { throwIfNoEntry: false }) ? realpathSync(file) : file
    await withLock(path, { signal }, async () => {
      const before = statSync(path, { throwIfNoEntry: false })
      const keys = change(before ? readKeyFile(path) : [])
      const temporary = `${path}.${randomBytes(6).toString('hex')}`
      try {
        writeFileSync(temporary, `${JSON.stringify({ keys }, undefined, 2)}\n`, { mode: 0o600 })
        if (before) takeRights(temporary, before)
        await replaceFile(temporary, path)
      } finally {
        rmSync(temporary, { force: true })
      }
    })
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (CllmError.isInstance(cause) || code === undefined || signal.aborted) throw cause
    const problem = `the keys cannot be written: ${message}`
    throw new CllmError('invalid_configuration', problem, { cause })
  }
}

/**
 * Gives a file another one's owner and group, as far as this user may, and then its mode; without the group's
 * rights where the group is another one.
 */
export function takeRights(
  file: string,
  { uid, gid, mode }: Pick<Stats, 'uid' | 'gid' | 'mode'>,
  chown = chownSync,
): void {
  const own = statSync(file)
  const takes = (owner: number): boolean => {
    try {
      if (own.uid !== owner || own.gid !== gid) chown(file, owner, gid)
      return true
    } catch {
      return false
    }
  }
  // Only root may set the owner; a member may set the group.
  const hasGroup = takes(uid) || takes(own.uid)
  chmodSync(file, mode & (hasGroup ? 0o777 : 0o707))
}

/** Creates a key: its secret, which is shown once, and the entry for the file. */
export function createKey(about: Omit<ApiKey, 'hash'>): { secret: string; key: ApiKey } {
  const secret = `cllm_${randomBytes(32).toString('base64url')}`
  return { secret, key: { ...about, hash: hashKey(secret) } }
}
