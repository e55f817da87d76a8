import type { TokenId } from '../contracts/tokenizer.js'

/** Tokens of a block, the unit in which prefixes are found. */
export const blockSize = 16

/**
 * The hash of every whole block of a growing list of tokens and of all that comes before it, so that
 * two lists with the same hash at a block begin with the same tokens (as in vLLM's automatic prefix
 * caching). Hashes have 53 bits; whoever takes over tokens compares them all the same.
 */
export class BlockChain {
  readonly #hashes: number[] = []
  #high = 0x2545f491
  #low = 0x61c88647

  /** @param scope what else must be equal for two lists to share anything */
  constructor(
    readonly tokens: readonly TokenId[],
    readonly scope: string,
  ) {
    for (let index = 0; index < scope.length; index++) this.#extend(scope.charCodeAt(index))
  }

  /** The hashes of the whole blocks among the tokens that there are now. */
  get hashes(): readonly number[] {
    const blocks = Math.floor(this.tokens.length / blockSize)
    for (let block = this.#hashes.length; block < blocks; block++) {
      const end = (block + 1) * blockSize
      for (let index = block * blockSize; index < end; index++) {
        this.#extend(this.tokens[index] ?? -1)
      }
      this.#hashes.push((this.#high >>> 11) * 2 ** 32 + (this.#low >>> 0))
    }
    return this.#hashes
  }

  /** Two independent 32-bit hashes, mixed as murmur3 does. */
  #extend(value: number): void {
    let high = Math.imul(this.#high ^ value, 0x85ebca6b)
    high ^= high >>> 15
    let low = Math.imul(this.#low + value + 1, 0x9e3779b1)
    low = Math.imul(low ^ (low >>> 13), 0xc2b2ae35)
    low ^= low >>> 16
    this.#high = (high + Math.imul(low, 5)) | 0
    this.#low = low
  }
}
