import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { CllmError } from '@cllm/core'

/** What a fetched file must be. */
export interface ExpectedFile {
  readonly bytes: number
  /** In hexadecimal. */
  readonly sha256: string
}

/**
 * Compares a file on disk with what it must be.
 *
 * @throws `model_unavailable` with both values when the size or the SHA-256 differs
 */
export async function checkFetched(
  path: string,
  expected: ExpectedFile,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await stat(path)
  if (size !== expected.bytes) throw mismatch('bytes', expected.bytes, size)
  const hash = createHash('sha256')
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { signal })
  const sha256 = hash.digest('hex')
  if (sha256 !== expected.sha256) throw mismatch('sha256', expected.sha256, sha256)
}

function mismatch(what: string, expected: number | string, received: number | string): CllmError {
  return new CllmError(
    'model_unavailable',
    `the file that came is not the one expected: ${what} ${expected} expected, ${received} received`,
    { details: { field: what, expected, received } },
  )
}

/**
 * Makes sure that a file begins like a GGUF.
 *
 * @throws `model_unavailable` when there is no such file, `model_invalid` when it is something else
 */
export async function checkGguf(path: string): Promise<void> {
  const start = Buffer.alloc(4)
  let length: number
  try {
    const file = await open(path)
    try {
      length = (await file.read(start, 0, 4, 0)).bytesRead
    } finally {
      await file.close()
    }
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const problem = code === 'ENOENT' ? 'there is no such file' : message
    throw new CllmError('model_unavailable', `cannot read the model ${path}: ${problem}`, { cause })
  }
  if (length === 4 && start.toString('latin1') === 'GGUF') return
  const received = length === 0 ? 'nothing' : JSON.stringify(start.toString('latin1', 0, length))
  throw new CllmError(
    'model_invalid',
    `${path} is not a GGUF file: "GGUF" expected in its first 4 bytes, ${received} found`,
    { details: { path, expected: 'GGUF', received } },
  )
}
