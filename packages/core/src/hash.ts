/** Mixes 32 bits so that each input bit affects all others: MurmurHash3's finalizer (A. Appleby). */
export function mixBits(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** The 32-bit hash of these integers, beginning with the hash `start`. */
export function hashTokens(start: number, values: readonly number[]): number {
  let hash = start
  for (const value of values) hash = extendHash(hash, value)
  return hash
}

/** Extends a hash by one integer. */
export function extendHash(hash: number, value: number): number {
  return mixBits(Math.imul(hash, 0x01000193) ^ Math.imul(value + 1, 0x9e3779b1))
}

/**
 * The next number of a linear congruential generator with the full period of 2³² (the one of "Numerical Recipes"). Its
 * high bits are good enough for synthetic tokens; its low bits are not.
 *
 * @param state the number before
 */
export function nextNumber(state: number): number {
  return (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
}

/** The UTF-16 units of a text. */
export function codesOf(text: string): Uint16Array {
  const codes = new Uint16Array(text.length)
  for (let index = 0; index < text.length; index++) codes[index] = text.charCodeAt(index)
  return codes
}

/** An incremental hash of 53 bits, made of two independent 32-bit hashes. */
export class GrowingHash {
  #high = 0x2545f491
  #low = 0x61c88647

  /** Adds the integers from index `from` up to `to`; returns the hash of all integers so far, in their order. */
  add(values: ArrayLike<number>, from = 0, to = values.length): number {
    let high = this.#high
    let low = this.#low
    for (let index = from; index < to; index++) {
      const value = values[index]!
      high = Math.imul(high ^ value, 0x85ebca6b)
      high ^= high >>> 15
      low = Math.imul(low + value + 1, 0x9e3779b1)
      low = Math.imul(low ^ (low >>> 13), 0xc2b2ae35)
      low ^= low >>> 16
      high = (high + Math.imul(low, 5)) | 0
    }
    this.#high = high
    this.#low = low
    return (high >>> 11) * 2 ** 32 + (low >>> 0)
  }
}
