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
  /** All of its tokens. */
  readonly chain: BlockChain
  /** Whether it is a checkpoint (`partial` in `SlotStates`) and not the whole content of a slot. */
  readonly partial: boolean
  /** Its size in bytes. */
  readonly bytes: number
}

/** The saved content of a slot, in RAM. */
export interface SavedState extends IndexedState {
  /** The bytes that the backend wrote. */
  readonly data: Uint8Array
  /** The number of present readers, for whom its memory must not change. */
  holds: number
  /** Until when it is not evicted. */
  kept?: KeptState
  /** The program whose conversation it is; undefined: unknown. */
  readonly program?: Program | undefined
  /** How often restoring it failed. */
  failures: number
  /** How often it, or a shorter state that it replaced, was used. */
  uses: number
  /** The state of the least worth is evicted first; see `StateStore`. */
  worth: number
}

/** Until when a state is kept, and for whom. */
export interface KeptState {
  /** Milliseconds of the clock; Infinity: for ever. */
  readonly until: number
  readonly tenant: string
}

/** The saved content of a slot, in a file. */
export interface FiledState extends IndexedState {
  readonly file: StateFile
}

/** Saved states with which a sequence can begin. */
export interface FoundState {
  /** The state to restore. */
  readonly state: SavedState | FiledState
  /** The checkpoint to which the slot is cut back after that. */
  readonly checkpoint?: SavedState | FiledState
  /** Leading tokens of the sequence that the slot holds then. */
  readonly shared: number
}

/** How many tokens a state has. */
export const lengthOf = ({ chain }: IndexedState): number => chain.tokens.length

/** The counts of a new state. */
export const unused = () => ({ holds: 0, failures: 0, uses: 1, worth: 0 })

/** The parts of it that are in files. */
export const filesOf = ({ state, checkpoint }: FoundState): FiledState[] =>
  [state, checkpoint].filter((one) => one !== undefined && 'file' in one)

/** Bytes of state and checkpoint together. */
export const bytesOf = ({ state, checkpoint }: FoundState): number =>
  state.bytes + (checkpoint?.bytes ?? 0)

/** Bytes that the token list takes for each token of a state. */
export const tokenBytes = 8

/** Bytes of memory that a state takes, including the unused end of its buffer. */
export const memoryOf = ({ data, chain }: SavedState): number =>
  data.buffer.byteLength + tokenBytes * chain.tokens.length

/** The most states with the same blocks whose tokens a look-up compares. */
const closelyRead = 8

/** A state and the number of leading tokens that a sequence shares with it. */
interface StateMatch<State> {
  readonly state: State
  readonly shared: number
}

/**
 * Finds states by the hashes of their blocks of tokens, as slots are found. States that can only be used as a whole are
 * found by the hash of their last whole block.
 */
export class StateIndex<State extends IndexedState> {
  readonly #blocks = new BlockIndex<State>()
  /** Indexed by the last whole block only. */
  readonly #ends = new BlockIndex<State>()
  /** Changes whenever look-ups may have other results. */
  version = 0

  add(state: State): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.add(state, hashes, 0, hashes.length)
    this.#ends.add(state, hashes, hashes.length - 1, hashes.length)
    this.version++
  }

  remove(state: State): void {
    const { hashes } = state.chain
    if (!state.partial) this.#blocks.remove(state, hashes, 0, hashes.length)
    this.#ends.remove(state, hashes, hashes.length - 1, hashes.length)
    this.version++
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

  /** The number of leading tokens that another whole state has as well, in whole blocks. */
  sharedWithOthers(state: State): number {
    return this.#blocks.depthOfOthers(state, state.chain.hashes) * blockSize
  }

  /** The longest state of a kind that the sequence begins with, of at most `limit` tokens. */
  exact(sequence: Sequence, partial: boolean, limit: number): State | undefined {
    return this.#endingIn(sequence.chain, limit, (state) => state.partial === partial)
  }

  /** The state of exactly these tokens. */
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

  /** The states of a kind of which these tokens are a continuation. */
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
 * The states that give the most leading tokens of a sequence: from RAM, or from files if that gives many more tokens. A
 * state of one tier may be cut back to a checkpoint of the other.
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
 * As `findInTiers`, with the whole states of one tier: a part of a state if it can be cut; otherwise a whole state, a
 * state that is cut back to a checkpoint, or a checkpoint alone.
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

/** The longer one of two that may be absent; of equal ones the first. */
function longer<One>(
  one: One | undefined,
  other: One | undefined,
  length: (one: One) => number,
): One | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return length(other) > length(one) ? other : one
}
