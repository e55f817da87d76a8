import type { StateFile } from '../../../contracts/engine/state-files.js'
import type { Program } from '../../programs/program.js'
import type { BlockChain } from '../block-chain.js'

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
