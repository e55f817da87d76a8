import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { CllmError } from '@cllm/core'
import { type ApiKey, hashKey, parseKeys } from '@cllm/http-koa'
import { replaceFile } from '../models/replace-file.js'
import { withLock } from '../models/fetch/with-lock.js'

/**
 * Reads the keys in a file.
 *
 * @throws `invalid_configuration` for a file that is missing or not a key file
 */
export function readKeyFile(file: string): readonly ApiKey[] {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `the keys cannot be read: ${reason}. \`cllm keys add NAME --api-keys FILE\` writes them`
    throw new CllmError('invalid_configuration', message, { cause })
  }
  return parseKeys(text, file)
}

/** Changes the keys in a file, which need not exist yet. Readers see the old or the new file. */
export async function updateKeyFile(
  file: string,
  signal: AbortSignal,
  change: (keys: readonly ApiKey[]) => readonly ApiKey[],
): Promise<void> {
  await withLock(file, { signal }, async () => {
    const keys = change(existsSync(file) ? readKeyFile(file) : [])
    const temporary = `${file}.${randomBytes(6).toString('hex')}`
    try {
      writeFileSync(temporary, `${JSON.stringify({ keys }, undefined, 2)}\n`, { mode: 0o600 })
      await replaceFile(temporary, file)
    } finally {
      rmSync(temporary, { force: true })
    }
  })
}

/** Creates a key: its secret, which is shown once, and the entry for the file. */
export function createKey(about: Omit<ApiKey, 'hash'>): { secret: string; key: ApiKey } {
  const secret = `cllm_${randomBytes(32).toString('base64url')}`
  return { secret, key: { ...about, hash: hashKey(secret) } }
}
