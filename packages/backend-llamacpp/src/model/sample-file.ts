import type { Hash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { partsOf } from '../native/gguf/gguf-file.js'

/** Parts of the file that are read, and how long each is, in bytes. */
const samples = 64
const sampleBytes = 65_536
/** The head with the metadata and the list of tensors is read up to this many bytes. */
const headBytes = 4 * 2 ** 20

/**
 * Adds a model's file to a hash, or the files that it is split over: of each its size, its head, and 64 parts that are spread evenly, 8 MiB in all, so
 * that a large model takes no minute. Two fine-tunes of one model differ in nearly every part.
 */
export async function sampleFile(path: string, hash: Hash): Promise<void> {
  for (const part of partsOf(path)) await samplePart(part, hash)
}

async function samplePart(path: string, hash: Hash): Promise<void> {
  const file = await open(path, 'r')
  try {
    const { size } = await file.stat()
    hash.update(`${size}`)
    const buffer = Buffer.alloc(headBytes)
    const add = async (length: number, position: number): Promise<void> => {
      const { bytesRead } = await file.read(buffer, 0, length, position)
      hash.update(buffer.subarray(0, bytesRead))
    }
    await add(headBytes, 0)
    for (let sample = 1; sample <= samples; sample++) {
      await add(sampleBytes, Math.max(0, Math.floor((size * sample) / samples) - sampleBytes))
    }
  } finally {
    await file.close()
  }
}
