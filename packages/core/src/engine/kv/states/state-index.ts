import type { Sequence } from '../../requests/sequence.js'
import { blockSize, type BlockChain } from '../block-chain.js'
import { BlockIndex } from '../block-index.js'
import { lengthOf, type SavedState } from './saved-state.js'

/** A look-up compares the tokens of this many states with the same blocks. */
const closelyRead = 8

/** A state and how many tokens a sequence begins with that it has too. */
export interface StateMatch {
  readonly state: SavedState
  readonly shared: number
}

/**
 * Finds states by tokens: by the hashes of blocks, as slots are found. States of which only all tokens
 * can be used are found by the hash of their last whole block.
 */
export class StateIndex {
  readonly #blocks = new BlockIndex<SavedState>()
  readonly #ends = new Map<number, Set<SavedState>>()

  add(state: SavedState): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.add(state, hashes, 0, hashes.length)
    const end = hashes.at(-1) ?? NaN
    const others = this.#ends.get(end)
    if (others === undefined) this.#ends.set(end, new Set([state]))
    else others.add(state)
  }

  remove(state: SavedState): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.remove(state, hashes, 0, hashes.length)
    const end = hashes.at(-1) ?? NaN
    const others = this.#ends.get(end)
    others?.delete(state)
    if (others?.size === 0) this.#ends.delete(end)
  }

  /** The whole states that share the most with the sequence. */
  *longest(sequence: Sequence): Iterable<StateMatch> {
    const { chain } = sequence
    const depth = this.#blocks.depth(chain.hashes)
    let read = 0
    for (const state of this.#blocks.holders(chain.hashes, depth)) {
      if (read++ === closelyRead) return
      const shared = commonLength(state.chain, chain, sequence.tokens.length - 1)
      if (shared > 0) yield { state, shared }
    }
  }

  /** The longest state of a kind that the sequence begins with, of at most `limit` tokens. */
  exact(sequence: Sequence, partial: boolean, limit: number): SavedState | undefined {
    return this.#endingIn(sequence.chain, limit, (state) => state.partial === partial)
  }

  /** Whether there is a state of these tokens. */
  find(chain: BlockChain, length: number, partial: boolean): SavedState | undefined {
    const isIt = (state: SavedState): boolean =>
      state.partial === partial && lengthOf(state) === length
    return this.#endingIn(chain, length, isIt, Math.floor(length / blockSize))
  }

  /** A whole state that begins with these tokens. */
  covering(chain: BlockChain, length: number): SavedState | undefined {
    const blocks = Math.floor(length / blockSize)
    for (const state of this.#blocks.holders(chain.hashes, blocks)) {
      if (commonLength(state.chain, chain, length) === length) return state
    }
    return undefined
  }

  /** The whole states that these tokens go on from. */
  *within(chain: BlockChain): Iterable<SavedState> {
    for (const hash of chain.hashes) {
      for (const state of this.#ends.get(hash) ?? []) {
        const length = lengthOf(state)
        if (state.partial || length >= chain.tokens.length) continue
        if (commonLength(state.chain, chain, length) === length) yield state
      }
    }
  }

  #endingIn(
    chain: BlockChain,
    limit: number,
    isWanted: (state: SavedState) => boolean,
    atLeast = 1,
  ): SavedState | undefined {
    const { hashes } = chain
    for (let blocks = Math.floor(limit / blockSize); blocks >= atLeast; blocks--) {
      let best: SavedState | undefined
      for (const state of this.#ends.get(hashes[blocks - 1] ?? NaN) ?? []) {
        const length = lengthOf(state)
        if (length > limit || !isWanted(state) || length <= (best?.chain.tokens.length ?? 0))
          continue
        if (commonLength(state.chain, chain, length) === length) best = state
      }
      if (best !== undefined) return best
    }
    return undefined
  }
}

/** How many tokens both begin with, up to `limit`: every token is compared. */
export function commonLength(one: BlockChain, other: BlockChain, limit: number): number {
  if (one.scope !== other.scope) return 0
  const most = Math.min(one.tokens.length, other.tokens.length, limit)
  let shared = 0
  while (shared < most && one.tokens[shared] === other.tokens[shared]) shared++
  return shared
}
