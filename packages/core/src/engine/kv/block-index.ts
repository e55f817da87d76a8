/**
 * Finds the holders of the longest prefix of a token list by block hashes (see `BlockChain`). A block that
 * one holder has, as most have, needs no set.
 */
export class BlockIndex<Holder> {
  readonly #holders = new Map<number, Holder | Set<Holder>>()

  /** Adds the holder to the blocks from index `from` up to `to`. */
  add(holder: Holder, hashes: readonly number[], from: number, to: number): void {
    for (let block = from; block < to; block++) {
      const hash = hashes[block] ?? NaN
      const held = this.#holders.get(hash)
      if (held === undefined) this.#holders.set(hash, holder)
      else if (held instanceof Set) held.add(holder)
      else if (held !== holder) this.#holders.set(hash, new Set([held, holder]))
    }
  }

  remove(holder: Holder, hashes: readonly number[], from: number, to: number): void {
    for (let block = from; block < to; block++) {
      const hash = hashes[block] ?? NaN
      const held = this.#holders.get(hash)
      if (held instanceof Set) {
        held.delete(holder)
        if (held.size === 0) this.#holders.delete(hash)
      } else if (held === holder) this.#holders.delete(hash)
    }
  }

  /**
   * The length in blocks of the longest prefix that some holder has. A holder of a block has all before
   * it, so a binary search finds it.
   */
  depth(hashes: readonly number[]): number {
    let has = 0
    let lacks = hashes.length + 1
    // Most prompts share nothing.
    if (!this.#holders.has(hashes[0] ?? NaN)) return 0
    while (lacks - has > 1) {
      const middle = (has + lacks) >>> 1
      if (this.#holders.has(hashes[middle - 1] ?? NaN)) has = middle
      else lacks = middle
    }
    return has
  }

  /** Whether another one holds the first `depth` blocks. */
  hasOther(holder: Holder, hashes: readonly number[], depth: number): boolean {
    const held = this.#holders.get(hashes[depth - 1] ?? NaN)
    if (held instanceof Set) return held.size > Number(held.has(holder))
    return held !== undefined && held !== holder
  }

  /** The holders of the first `depth` blocks, the earliest added first. */
  holders(hashes: readonly number[], depth: number): Iterable<Holder> {
    const held = this.#holders.get(hashes[depth - 1] ?? NaN)
    if (held === undefined) return []
    return held instanceof Set ? held : [held]
  }
}
