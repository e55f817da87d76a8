import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { checkIsFile, partsOf } from '../native/gguf-file.js'

export { checkIsFile, partsOf }

/** The least number of samples per model, and the size of each in bytes. */
const samples = 64
const sampleBytes = 65_536
/** At most this many bytes of the head are read, which has the metadata and the list of tensors. */
const headBytes = 4 * 2 ** 20

/**
 * Adds a model's files to a hash: the size of each file, the head of the first, and samples spread evenly over all
 * files, 64 or up to one more per file. That reads 8 MiB of a single file and little more of several, so a large model
 * does not take a minute. Two fine-tunes of one model differ in nearly every sample.
 */
export async function sampleFile(path: string, hash: Hash): Promise<void> {
  const parts = partsOf(path)
  const each = Math.ceil(samples / parts.length)
  const buffer = Buffer.alloc(headBytes)
  for (const [index, part] of parts.entries()) {
    const file = await open(part, 'r')
    try {
      const { size } = await file.stat()
      hash.update(`${size}`)
      if (index === 0) await add(file, hash, buffer, 0)
      const sample = buffer.subarray(0, sampleBytes)
      for (let nth = 1; nth <= each; nth++) {
        const end = Math.floor((size * nth) / each)
        await add(file, hash, sample, Math.max(0, end - sampleBytes))
      }
    } finally {
      await file.close()
    }
  }
}

/** Adds the file's bytes from `position` on, as many as fit into the buffer `into`. */
async function add(file: FileHandle, hash: Hash, into: Buffer, position: number): Promise<void> {
  const { bytesRead } = await file.read(into, 0, into.length, position)
  hash.update(into.subarray(0, bytesRead))
}

/**
 * A hash of the files' samples (see {@link sampleFile}): a saved state fits only models with the same key.
 *
 * @param more - settings that must be equal, too
 */
export async function stateKey(paths: readonly string[], more: object): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(more))
  for (const path of paths) await sampleFile(path, hash)
  return hash.digest('hex')
}
