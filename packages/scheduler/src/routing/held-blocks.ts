/** This many blocks of a prompt are indexed: more than many prompts begin with. */
export const indexed = 16

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
   * Tells each holder of a prompt's first block, and again of each further one, that it has so many of the
   * leading blocks. Those that have {@link indexed} of them may have more.
   */
  tell(blocks: readonly number[], onHeld: (holder: Holder, depth: number) => void): void {
    for (const [index, hash] of blocks.slice(0, indexed).entries()) {
      const held = this.#holders.get(hash)
      if (held === undefined) return
      if (!(held instanceof Map)) onHeld(held, index + 1)
      else for (const holder of held.keys()) onHeld(holder, index + 1)
    }
  }
}
