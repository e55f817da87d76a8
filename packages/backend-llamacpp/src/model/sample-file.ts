import { createHash, type Hash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { partsOf } from '../native/gguf-file.js'

export { partsOf }

/** Samples that are read of a model at least, and how long each is, in bytes. */
const samples = 64
const sampleBytes = 65_536
/** The head with the metadata and the list of tensors is read up to this many bytes. */
const headBytes = 4 * 2 ** 20

/**
 * Adds a model's file to a hash, or the files that it is split over: the size of each, the head of the
 * first, and samples that are spread evenly over all, 64 or up to one more for each file. Of one file
 * that is 8 MiB and of many little more, so that a large model takes no minute. Two fine-tunes of one
 * model differ in nearly every sample.
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

/** Adds what is in the file from a position on, as much as the buffer takes. */
async function add(file: FileHandle, hash: Hash, into: Buffer, position: number): Promise<void> {
  const { bytesRead } = await file.read(into, 0, into.length, position)
  hash.update(into.subarray(0, bytesRead))
}

/**
 * A hash of files, as {@link sampleFile} reads them, by which states are told apart.
 *
 * @param more - what else must be the same
 */
export async function stateKey(paths: readonly string[], more: object): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(more))
  for (const path of paths) await sampleFile(path, hash)
  return hash.digest('hex')
}
