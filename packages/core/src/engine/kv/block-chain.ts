import type { TokenId } from '../../contracts/model/tokenizer.js'
import { GrowingHash } from '../../hash.js'

/** Tokens of a block, the unit in which prefixes are found. */
export const blockSize = 16

/**
 * The hash of every whole block of a growing list of tokens and of all that comes before it, so that
 * two lists with the same hash at a block begin with the same tokens (as in vLLM's automatic prefix
 * caching). Hashes have 53 bits; tokens are still compared before they are reused.
 */
export class BlockChain {
  readonly #hashes: number[] = []
  readonly #hash = new GrowingHash()

  /** @param scope what else must be equal for two lists to share anything */
  constructor(
    readonly tokens: readonly TokenId[],
    readonly scope: string,
  ) {
    for (let index = 0; index < scope.length; index++) this.#hash.add(scope.charCodeAt(index))
  }

  /** The hashes of the whole blocks among the tokens that there are now. */
  get hashes(): readonly number[] {
    const blocks = Math.floor(this.tokens.length / blockSize)
    for (let block = this.#hashes.length; block < blocks; block++) {
      const end = (block + 1) * blockSize
      for (let index = block * blockSize; index < end; index++) {
        this.#hash.add(this.tokens[index] ?? -1)
      }
      this.#hashes.push(this.#hash.value)
    }
    return this.#hashes
  }
}
