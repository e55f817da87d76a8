import type { TokenId } from '../../contracts/model/tokenizer.js'
import { lowestWhere } from '../../defined.js'
import { codesOf, GrowingHash } from '../../hash.js'

/** Tokens per block, the unit in which prefixes are found. */
export const blockSize = 16

/** It is never worth waiting for a prefix of fewer tokens. */
export const minimumWait = 64

/**
 * The hashes of a growing list of tokens: one for each whole block together with all blocks before it, so that two lists
 * with the same hash at a block begin with the same tokens (as in vLLM's automatic prefix caching). Hashes have 53 bits;
 * tokens are still compared before they are reused.
 */
export class BlockChain {
  readonly #hashes: number[] = []
  readonly #hash = new GrowingHash()

  /** @param scope lists of different scopes share nothing, whatever their tokens */
  constructor(
    readonly tokens: readonly TokenId[],
    readonly scope: string,
  ) {
    this.#hash.add(codesOf(scope))
  }

  /** The hashes of all whole blocks so far. */
  get hashes(): readonly number[] {
    const blocks = Math.floor(this.tokens.length / blockSize)
    for (let block = this.#hashes.length; block < blocks; block++) {
      const first = block * blockSize
      this.#hashes.push(this.#hash.add(this.tokens, first, first + blockSize))
    }
    return this.#hashes
  }
}

/**
 * The number of leading tokens that both have in common, up to `limit`; every token is compared.
 *
 * @param known - leading tokens that are known to be equal
 */
export function commonLength(one: BlockChain, other: BlockChain, limit: number, known = 0): number {
  if (one.scope !== other.scope) return 0
  return sameTokens(one.tokens, other.tokens, limit, known)
}

/** The number of leading tokens that both lists have in common, up to `limit`; the first `known` are not compared. */
export function sameTokens(
  one: ArrayLike<TokenId>,
  other: ArrayLike<TokenId>,
  limit: number,
  known = 0,
): number {
  const most = Math.min(one.length, other.length, limit)
  let shared = Math.min(known, most)
  while (shared < most && one[shared] === other[shared]) shared++
  return shared
}

/**
 * Finds the holders of the longest prefix of a token list by block hashes (see `BlockChain`). Most blocks have a single
 * holder, which is stored without a set.
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
   * The length in blocks of the longest prefix that some holder has. A holder of a block has all blocks before it, too,
   * so that a binary search works.
   */
  depth(hashes: readonly number[]): number {
    // Most prompts share nothing.
    if (!this.#holders.has(hashes[0] ?? NaN)) return 0
    return lowestWhere(1, hashes.length, (block) => !this.#holders.has(hashes[block] ?? NaN))
  }

  /** The length in blocks of the longest prefix that another holder has. */
  depthOfOthers(holder: Holder, hashes: readonly number[]): number {
    return lowestWhere(0, hashes.length, (block) => {
      const held = this.#holders.get(hashes[block] ?? NaN)
      if (held instanceof Set) return held.size === Number(held.has(holder))
      return held === undefined || held === holder
    })
  }

  /** The holders of the first `depth` blocks, the earliest added first. */
  holders(hashes: readonly number[], depth: number): Iterable<Holder> {
    const held = this.#holders.get(hashes[depth - 1] ?? NaN)
    if (held === undefined) return []
    return held instanceof Set ? held : [held]
  }
}
