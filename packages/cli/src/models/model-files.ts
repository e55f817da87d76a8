import { createHash, randomUUID } from 'node:crypto'
import { createReadStream, readdirSync } from 'node:fs'
import { open, rename as renameFile, rm, stat, writeFile } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkIsFile } from '@cllm/backend-llamacpp/sample-file'
import { CllmError, attempt } from '@cllm/core'
import { reasonOf } from '../config/messages.js'

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
export async function checkFetched(path: string, expected: ExpectedFile, signal: AbortSignal) {
  const { size } = await stat(path)
  const { bytes = size } = expected
  if (size !== bytes) throw mismatch('bytes', bytes, size)
  const hash = createHash('sha256')
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { signal })
  const sha256 = hash.digest('hex')
  if (sha256 !== expected.sha256) throw mismatch('sha256', expected.sha256, sha256)
}

function mismatch(what: string, expected: number | string, received: number | string): CllmError {
  const message = `the fetched file is not the expected one: expected ${what} ${expected}, got ${received}`
  return new CllmError('model_unavailable', message, {
    details: { field: what, expected, received },
  })
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
  const message = `${path} is not a GGUF file: expected "GGUF" in its first 4 bytes, found ${received}`
  throw new CllmError('model_invalid', message, { details: { path, expected: 'GGUF', received } })
}

/** @throws `model_unavailable` when the file does not exist, is a folder or cannot be read */
export async function checkReadable(path: string): Promise<void> {
  await readStart(path, 'a file')
}

async function readStart(path: string, expected: string): Promise<Buffer> {
  const start = Buffer.alloc(4)
  try {
    checkIsFile(path, expected)
    const file = await open(path)
    try {
      const { bytesRead } = await file.read(start, 0, 4, 0)
      return start.subarray(0, bytesRead)
    } finally {
      await file.close()
    }
  } catch (cause) {
    const message = `cannot read the model ${path}: ${reasonOf(cause)}`
    throw new CllmError('model_unavailable', message, { cause })
  }
}

/** Whether there is something at a path. */
export const exists = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined)) !== undefined

/** The name of a projector that is fetched with a model's file. */
export const projectorName = (model: string): string => `mmproj-${basename(model)}`

/** Whether a file is a projector, by its name. */
export const isProjector = (file: string): boolean => /mmproj/i.test(basename(file))

/**
 * The projector in the folder of a model's file: the one with the model's name, whatever the quantizations, or the only
 * one beside the only model. Undefined: there is none, or it is not clear which.
 */
export function projectorBeside(model: string): string | undefined {
  const read = () => readdirSync(dirname(model)).filter((file) => /\.gguf$/i.test(file))
  const files = attempt(read, [])
  const projectors = files.filter(isProjector)
  const models = new Set(files.filter((file) => !isProjector(file)).map(stemOf))
  const [only, ...others] = projectors
  const isClear = models.size === 1 && others.length === 0
  const found =
    projectors.find((file) => file === projectorName(model)) ??
    projectors.find((file) => stemOf(file) === stemOf(basename(model))) ??
    (isClear ? only : undefined)
  return found === undefined || isProjector(model) ? undefined : join(dirname(model), found)
}

/** The model's name in a file's name, such as `smolvlm2-2.2b-instruct`: without quantization, `mmproj` and parts. */
const stemOf = (file: string): string =>
  file
    .replace(/(-\d{5}-of-\d{5})?\.gguf$/i, '')
    .toLowerCase()
    .split(/[-.]/)
    .filter((word) => !/^(mmproj|i?q\d\w*|b?f16|f32|mxfp4|ud)$/.test(word))
    .join('-')

/** Options of {@link replaceFile}; the defaults are this machine's. */
interface ReplaceFileOptions {
  readonly platform?: NodeJS.Platform
  readonly rename?: (from: string, to: string) => Promise<void>
  readonly delay?: (milliseconds: number) => Promise<unknown>
}

const inUse: ReadonlySet<string | undefined> = new Set(['EPERM', 'EACCES', 'EBUSY'])

/**
 * Moves a file to a place where another may be; readers see the old or the new one. Windows refuses that while a
 * reader, or a virus scanner, has the old one open: there it is tried for two seconds.
 *
 * @throws what the file system says at the last attempt
 */
export async function replaceFile(
  from: string,
  to: string,
  { platform = process.platform, rename = renameFile, delay = sleep }: ReplaceFileOptions = {},
): Promise<void> {
  for (let attempts = platform === 'win32' ? 20 : 1; ; attempts--) {
    try {
      return await rename(from, to)
    } catch (error) {
      if (attempts <= 1 || !inUse.has((error as NodeJS.ErrnoException).code)) throw error
    }
    await delay(100)
  }
}

/**
 * Writes a file that only its owner can read, by way of a temporary file, which is always removed: on a full disk it
 * would be in the way.
 *
 * @param prepare - called with the temporary file before it is moved
 */
export async function writeWhole(file: string, text: string, prepare?: (part: string) => void) {
  const part = `${file}.${randomUUID()}.part`
  try {
    await writeFile(part, text, { mode: 0o600, flush: true })
    prepare?.(part)
    await replaceFile(part, file)
  } finally {
    await rm(part, { force: true })
  }
}
