import type { BlockChain } from '../block-chain.js'

/** What a slot held, kept outside of it. */
export interface SavedState {
  /** Its tokens, all of them. */
  readonly chain: BlockChain
  /** Whether it is a checkpoint (`partial` in `SlotStates`) and not all that the slot held. */
  readonly partial: boolean
  /** The state as the backend wrote it. */
  readonly data: Uint8Array
  /** How many use it now: its memory must stay as it is. */
  holds: number
}

/** A way to begin a sequence with what was saved. */
export interface FoundState {
  /** What is restored first. */
  readonly state: SavedState
  /** A checkpoint that is restored into it then. */
  readonly checkpoint?: SavedState
  /** Tokens of the sequence that the slot holds in the end. */
  readonly shared: number
}

/** How many tokens a state has. */
export const lengthOf = ({ chain }: SavedState): number => chain.tokens.length

/** Bytes of memory that a state takes, with that which is not used. */
export const memoryOf = ({ data, chain }: SavedState): number =>
  data.buffer.byteLength + 8 * chain.tokens.length
