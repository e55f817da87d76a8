/** The hash of `start` and then these integers: 32 well-mixed bits (murmur3's finalizer). */
export function hashTokens(start: number, values: readonly number[]): number {
  let hash = start
  for (const value of values) hash = extendHash(hash, value)
  return hash
}

/** The hash of what was hashed before and one more integer. */
export function extendHash(hash: number, value: number): number {
  let mixed = Math.imul(hash, 0x01000193) ^ Math.imul(value + 1, 0x9e3779b1)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
