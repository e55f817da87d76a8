import type { CachedState } from '../../../contracts/engine/cache-statistics.js'
import type { FiledState, SavedState } from './saved-state.js'
import { type IndexedState, lengthOf } from './state-index.js'

/** What clients are told of the states in RAM, and then of those in files. */
export function listStates(
  inRam: Iterable<SavedState>,
  inFiles: Iterable<FiledState>,
  now: number,
): CachedState[] {
  return [
    ...Array.from(inRam, (state) => ({
      ...describe('ram', state),
      pinned: state.pinned === true || (state.kept?.until ?? 0) > now,
    })),
    ...Array.from(inFiles, (state) => describe('disk', state)),
  ]
}

function describe(tier: CachedState['tier'], state: IndexedState): CachedState {
  const { bytes, partial: checkpoint } = state
  return { tier, tokens: lengthOf(state), bytes, checkpoint, pinned: false }
}
