/** This many blocks of a prompt are indexed: more than many prompts begin with. */
const indexed = 16

/** Which holders have a prompt that begins with a block: most blocks have one holder, and one prompt of it. */
type Holders<Holder> = Holder | Map<Holder, number>

/** Who holds how much of a prompt's beginning, without a look at each prompt of each holder. */
export class HeldBlocks<Holder extends object> {
  readonly #holders = new Map<number, Holders<Holder>>()

  /** @param chain - the hashes of a prompt's blocks, each of it and of all before it */
  add(holder: Holder, chain: readonly number[]): void {
    for (const hash of chain.slice(0, indexed)) {
      const held = this.#holders.get(hash)
      if (held === undefined) this.#holders.set(hash, holder)
      else if (held instanceof Map) held.set(holder, (held.get(holder) ?? 0) + 1)
      else if (held === holder) this.#holders.set(hash, new Map([[holder, 2]]))
      else {
        const both: [Holder, number][] = [
          [held, 1],
          [holder, 1],
        ]
        this.#holders.set(hash, new Map(both))
      }
    }
  }

  remove(holder: Holder, chain: readonly number[]): void {
    for (const hash of chain.slice(0, indexed)) {
      const held = this.#holders.get(hash)
      if (!(held instanceof Map)) {
        if (held === holder) this.#holders.delete(hash)
        continue
      }
      const count = held.get(holder) ?? 0
      if (count > 1) held.set(holder, count - 1)
      else held.delete(holder)
      if (held.size === 0) this.#holders.delete(hash)
    }
  }

  /**
   * Leading blocks of a prompt that each holder has; those that have none are left out. `most` of them may have
   * more than that.
   */
  depths(blocks: readonly number[]): {
    readonly depths: ReadonlyMap<Holder, number>
    readonly most: number
  } {
    const depths = new Map<Holder, number>()
    for (const [index, hash] of blocks.slice(0, indexed).entries()) {
      const held = this.#holders.get(hash)
      if (held === undefined) break
      if (!(held instanceof Map)) depths.set(held, index + 1)
      else for (const holder of held.keys()) depths.set(holder, index + 1)
    }
    return { depths, most: indexed }
  }
}
