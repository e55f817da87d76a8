import type { TokenId } from '../../contracts/model/tokenizer.js'

const smallest = 64

/**
 * Where the tokens of a growing list that end with each n-gram were last seen. Adding a token takes
 * constant time; n-grams of the same hash displace each other, so what is found must be compared.
 */
export class NgramIndex {
  /** By hash: one more than the index behind the n-gram; 0: none. */
  #ends = new Int32Array(smallest)
  #size = 0

  constructor(readonly length: number) {}

  /** The index behind the last n-gram that was added and probably is the one that ends before `end`. */
  find(tokens: readonly TokenId[], end: number): number | undefined {
    if (end < this.length) return undefined
    const found = this.#ends[this.#place(tokens, end)] ?? 0
    return found === 0 ? undefined : found - 1
  }

  /** Adds the n-gram that ends before `end`; ends must rise by one. */
  add(tokens: readonly TokenId[], end: number): void {
    if (end < this.length) return
    if (++this.#size * 2 > this.#ends.length) this.#grow(tokens, end)
    this.#ends[this.#place(tokens, end)] = end + 1
  }

  #grow(tokens: readonly TokenId[], end: number): void {
    this.#ends = new Int32Array(2 * this.#ends.length)
    for (let at = this.length; at < end; at++) this.#ends[this.#place(tokens, at)] = at + 1
  }

  #place(tokens: readonly TokenId[], end: number): number {
    let hash = this.length
    for (let at = end - this.length; at < end; at++) {
      hash = Math.imul(hash ^ (tokens[at] ?? 0), 0x9e3779b1)
      hash ^= hash >>> 15
    }
    return hash & (this.#ends.length - 1)
  }
}
