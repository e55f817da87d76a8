import type { Slot } from '../engine-parts.js'
import type { FoundState, SavedState } from './states/saved-state.js'

/**
 * A slot for a sequence, and whose tokens it begins with: its own, a copy of the source's, or those of
 * a saved state.
 */
export interface SlotChoice {
  readonly slot: Slot
  readonly source: Slot
  readonly shared: number
  readonly found?: FoundState
  /** What the slot's, or the source's, tokens are cut back to, where that needs one. */
  readonly checkpoint?: SavedState
  /** What had more of its tokens, and seemed to cost more. */
  readonly passedOver?: readonly ('copy' | 'state')[]
}

/** How many tokens of the sequence its slot keeps as they are. */
export const keptBy = ({ slot, source, shared, found }: SlotChoice): number =>
  slot === source && found === undefined ? shared : 0
