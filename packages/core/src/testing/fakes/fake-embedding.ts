import { extendHash } from '../../hash.js'

/** A vector of length 1 derived from the hash of an input. */
export function fakeEmbedding(hash: number, size: number): number[] {
  const vector = Array.from({ length: size }, (_, at) => extendHash(hash, at) / 2 ** 31 - 1)
  const length = Math.hypot(...vector)
  return vector.map((value) => value / length)
}
