import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { CllmError } from '@cllm/core'
import { reasonOf } from '../../config/messages.js'

/** What is known of a file before it is fetched. */
export interface ExpectedFile {
  /** Absent: not known. */
  readonly bytes?: number
  /** In hexadecimal. */
  readonly sha256: string
}

/**
 * Checks the size and hash of a file on disk.
 *
 * @throws `model_unavailable` with both values when the size or the SHA-256 differs
 */
export async function checkFetched(
  path: string,
  expected: ExpectedFile,
  signal: AbortSignal,
): Promise<void> {
  const { size } = await stat(path)
  const { bytes = size } = expected
  if (size !== bytes) throw mismatch('bytes', bytes, size)
  const hash = createHash('sha256')
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { signal })
  const sha256 = hash.digest('hex')
  if (sha256 !== expected.sha256) throw mismatch('sha256', expected.sha256, sha256)
}

function mismatch(what: string, expected: number | string, received: number | string): CllmError {
  return new CllmError(
    'model_unavailable',
    `the fetched file is not the expected one: expected ${what} ${expected}, got ${received}`,
    { details: { field: what, expected, received } },
  )
}

/**
 * Checks that a file starts like a GGUF.
 *
 * @throws `model_unavailable` when it does not exist or is a folder, `model_invalid` when it is not a GGUF
 */
export async function checkGguf(path: string): Promise<void> {
  const start = await readStart(path, 'a GGUF file')
  if (start.toString('latin1') === 'GGUF') return
  const received = start.length === 0 ? 'nothing' : JSON.stringify(start.toString('latin1'))
  throw new CllmError(
    'model_invalid',
    `${path} is not a GGUF file: expected "GGUF" in its first 4 bytes, found ${received}`,
    { details: { path, expected: 'GGUF', received } },
  )
}

/** @throws `model_unavailable` when the file does not exist, is a folder or cannot be read */
export async function checkReadable(path: string): Promise<void> {
  await readStart(path, 'a file')
}

async function readStart(path: string, expected: string): Promise<Buffer> {
  const start = Buffer.alloc(4)
  try {
    const file = await open(path)
    try {
      const { bytesRead } = await file.read(start, 0, 4, 0)
      return start.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (cause) {
    const isFolder = (cause as NodeJS.ErrnoException).code === 'EISDIR'
    const problem = isFolder ? `expected ${expected}, found a folder` : reasonOf(cause)
    throw new CllmError('model_unavailable', `cannot read the model ${path}: ${problem}`, { cause })
  }
}

/** Whether there is something at a path. */
export async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined
}
