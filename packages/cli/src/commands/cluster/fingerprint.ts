import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'

/** The file is read in this many places, a piece of this size at each. */
const places = 64
const piece = 256 * 1024

/**
 * A hash of a model's file: its size, its beginning (where a GGUF file has its metadata), and pieces
 * evenly spread over the rest, which tell different weights apart without reading all of them.
 */
export async function hashModelFile(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { size } = await file.stat()
    const hash = createHash('sha256').update(String(size))
    const buffer = Buffer.alloc(piece)
    for (let place = 0; place < places; place++) {
      const at = Math.floor((Math.max(0, size - piece) * place) / (places - 1))
      const { bytesRead } = await file.read(buffer, 0, piece, at)
      hash.update(buffer.subarray(0, bytesRead))
    }
    return hash.digest('hex')
  } finally {
    await file.close()
  }
}

/** A short name for all of these together. */
export function fingerprintOf(parts: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(Object.entries(parts).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return `fp_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}
