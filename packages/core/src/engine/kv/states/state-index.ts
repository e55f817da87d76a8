import type { StateFile, SlotStates } from '../../../contracts/model/states.js'
import type { Program } from '../../programs/program.js'
import {
  type BlockChain,
  BlockIndex,
  blockSize,
  commonLength,
  minimumWait,
} from '../block-chain.js'
import type { Sequence } from '../../requests/sequence.js'

/** A state that can be found by its tokens. */
export interface IndexedState {
  /** Its tokens, all of them. */
  readonly chain: BlockChain
  /** Whether it is a checkpoint (`partial` in `SlotStates`) and not all that the slot held. */
  readonly partial: boolean
  /** Its size in bytes. */
  readonly bytes: number
}

/** What a slot held, in RAM. */
export interface SavedState extends IndexedState {
  /** As the backend wrote it. */
  readonly data: Uint8Array
  /** How many use it now: its memory must stay as it is. */
  holds: number
  /** Whether no other is worth dropping it. */
  pinned?: boolean
  /** The same for a time. */
  kept?: KeptState
  /** Whose conversation it is; undefined: nobody's who is known. */
  readonly program?: Program | undefined
  /** How often it could not be restored. */
  failures: number
  /** How often it, or what it goes on from, was wanted. */
  uses: number
  /** What is worth least is dropped first; see `StateStore`. */
  worth: number
}

/** Until when a state is kept, and for whom. */
export interface KeptState {
  /** Milliseconds of the clock. */
  readonly until: number
  readonly tenant: string
}

/** What a slot held, in a file. */
export interface FiledState extends IndexedState {
  readonly file: StateFile
}

/** A way to begin a sequence with what was saved. */
export interface FoundState {
  /** What is restored. */
  readonly state: SavedState | FiledState
  /** A checkpoint that it is cut back to then. */
  readonly checkpoint?: SavedState | FiledState
  /** Tokens of the sequence that the slot holds in the end. */
  readonly shared: number
}

/** How many tokens a state has. */
export const lengthOf = ({ chain }: IndexedState): number => chain.tokens.length

/** What nobody has used yet. */
export const unused = () => ({ holds: 0, failures: 0, uses: 1, worth: 0 })

/** What of it is in files. */
export const filesOf = ({ state, checkpoint }: FoundState): FiledState[] =>
  [state, checkpoint].filter((one) => one !== undefined && 'file' in one)

/** Bytes of all of it. */
export const bytesOf = ({ state, checkpoint }: FoundState): number =>
  state.bytes + (checkpoint?.bytes ?? 0)

/** Bytes of memory that each token of a state takes besides. */
export const tokenBytes = 8

/** Bytes of memory that a state takes, with that which is not used. */
export const memoryOf = ({ data, chain }: SavedState): number =>
  data.buffer.byteLength + tokenBytes * chain.tokens.length

/** A look-up compares the tokens of this many states with the same blocks. */
const closelyRead = 8

/** A state and how many tokens a sequence begins with that it has too. */
interface StateMatch<State> {
  readonly state: State
  readonly shared: number
}

/**
 * Finds states by tokens: by the hashes of blocks, as slots are found. States of which only all tokens
 * can be used are found by the hash of their last whole block.
 */
export class StateIndex<State extends IndexedState> {
  readonly #blocks = new BlockIndex<State>()
  /** By the last whole block alone. */
  readonly #ends = new BlockIndex<State>()

  add(state: State): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.add(state, hashes, 0, hashes.length)
    this.#ends.add(state, hashes, hashes.length - 1, hashes.length)
  }

  remove(state: State): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.remove(state, hashes, 0, hashes.length)
    this.#ends.remove(state, hashes, hashes.length - 1, hashes.length)
  }

  /** The smallest of the whole states that share the most with the sequence. */
  best({ chain, tokens }: Sequence): StateMatch<State> | undefined {
    const depth = this.#blocks.depth(chain.hashes)
    let best: StateMatch<State> | undefined
    let read = 0
    for (const state of this.#blocks.holders(chain.hashes, depth)) {
      if (read++ === closelyRead) break
      const shared = commonLength(state.chain, chain, tokens.length - 1)
      const isSmaller = shared === best?.shared && state.bytes < best.state.bytes
      if (shared > (best?.shared ?? 0) || isSmaller) best = { state, shared }
    }
    return best
  }

  /** How many tokens a state begins with that another whole one has, in whole blocks. */
  sharedWithOthers(state: State): number {
    return this.#blocks.depthOfOthers(state, state.chain.hashes) * blockSize
  }

  /** The longest state of a kind that the sequence begins with, of at most `limit` tokens. */
  exact(sequence: Sequence, partial: boolean, limit: number): State | undefined {
    return this.#endingIn(sequence.chain, limit, (state) => state.partial === partial)
  }

  /** Whether there is a state of these tokens. */
  find(chain: BlockChain, length: number, partial: boolean): State | undefined {
    const isIt = (state: State): boolean => state.partial === partial && lengthOf(state) === length
    return this.#endingIn(chain, length, isIt, Math.floor(length / blockSize))
  }

  /** A whole state that begins with these tokens. */
  covering(chain: BlockChain, length: number): State | undefined {
    const blocks = Math.floor(length / blockSize)
    for (const state of this.#blocks.holders(chain.hashes, blocks)) {
      if (commonLength(state.chain, chain, length) === length) return state
    }
    return undefined
  }

  /** The states of a kind that these tokens go on from. */
  *within(chain: BlockChain, partial = false): Iterable<State> {
    const { hashes } = chain
    for (let blocks = 1; blocks <= hashes.length; blocks++) {
      for (const state of this.#ends.holders(hashes, blocks)) {
        const length = lengthOf(state)
        if (state.partial !== partial || length >= chain.tokens.length) continue
        if (commonLength(state.chain, chain, length) === length) yield state
      }
    }
  }

  #endingIn(
    chain: BlockChain,
    limit: number,
    isWanted: (state: State) => boolean,
    atLeast = 1,
  ): State | undefined {
    const { hashes } = chain
    for (let blocks = Math.floor(limit / blockSize); blocks >= atLeast; blocks--) {
      let best: State | undefined
      for (const state of this.#ends.holders(hashes, blocks)) {
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

type Tokens = Pick<SlotStates, 'cutsAnywhere' | 'checkpointNeedsPrefix'>

/**
 * The way to the most tokens of a sequence with what is in RAM; or with files, where that is many more
 * tokens. A state of either may be cut back to a checkpoint of the other.
 */
export function findInTiers(
  ram: { readonly index: StateIndex<SavedState>; holds(bytes: number): boolean },
  files: StateIndex<FiledState> | undefined,
  sequence: Sequence,
  states: Tokens,
): FoundState | undefined {
  const inRam = (limit: number) => ram.index.exact(sequence, true, limit)
  const best = findState(ram.index, sequence, states, inRam)
  if (files === undefined) return best
  const anywhere = (limit: number) =>
    longer<FoundState['state']>(inRam(limit), files.exact(sequence, true, limit), lengthOf)
  const first = states.cutsAnywhere ? best : findState(ram.index, sequence, states, anywhere)
  const second = findState(files, sequence, states, anywhere)
  const found = longer(first, second, sharedBy)
  const more = (found?.shared ?? 0) - (best?.shared ?? 0)
  return found !== undefined && more >= minimumWait && ram.holds(bytesOf(found)) ? found : best
}

/**
 * The same with the states of one tier: a part of a state where it can be
 * cut; otherwise a whole state, one that is cut back to a checkpoint, or a checkpoint alone.
 *
 * @param checkpoint - the longest one of at most this many tokens
 */
function findState<State extends FoundState['state']>(
  index: StateIndex<State>,
  sequence: Sequence,
  states: Tokens,
  checkpoint: (limit: number) => FoundState['state'] | undefined,
): FoundState | undefined {
  if (states.cutsAnywhere) return index.best(sequence)
  const limit = sequence.tokens.length - 1
  const whole = allOf(index.exact(sequence, false, limit))
  if (!states.checkpointNeedsPrefix) return longer(whole, allOf(checkpoint(limit)), sharedBy)
  const longest = index.best(sequence)
  const cut = longest && checkpoint(longest.shared)
  if (longest === undefined || cut === undefined) return whole
  return longer(whole, { state: longest.state, checkpoint: cut, shared: lengthOf(cut) }, sharedBy)
}

const allOf = (state: FoundState['state'] | undefined): FoundState | undefined =>
  state && { state, shared: lengthOf(state) }
const sharedBy = ({ shared }: FoundState): number => shared

/** The longer one of two that may be there; of equals the first. */
function longer<One>(
  one: One | undefined,
  other: One | undefined,
  length: (one: One) => number,
): One | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return length(other) > length(one) ? other : one
}
