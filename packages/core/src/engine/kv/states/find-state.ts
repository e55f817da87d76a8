import type { SlotStates } from '../../../contracts/model/slot-states.js'
import type { Sequence } from '../../requests/sequence.js'
import type { FoundState, SavedState } from './saved-state.js'
import { lengthOf, type StateIndex } from './state-index.js'

/**
 * The way to the most tokens of a sequence with the states of one tier: a part of a state where it can be
 * cut; otherwise a whole state, one that is cut back to a checkpoint, or a checkpoint alone.
 *
 * @param checkpoint - the longest one of at most this many tokens
 */
export function findState<State extends FoundState['state']>(
  index: StateIndex<State>,
  sequence: Sequence,
  states: Pick<SlotStates, 'cutsAnywhere' | 'checkpointNeedsPrefix'>,
  checkpoint: (limit: number) => SavedState | undefined,
): FoundState | undefined {
  if (states.cutsAnywhere) return index.best(sequence)
  const limit = sequence.tokens.length - 1
  const ways: FoundState[] = []
  const whole = index.exact(sequence, false, limit)
  if (whole !== undefined) ways.push({ state: whole, shared: lengthOf(whole) })
  if (states.checkpointNeedsPrefix) {
    const longest = index.best(sequence)
    const cut = longest && checkpoint(longest.shared)
    if (longest !== undefined && cut !== undefined) {
      ways.push({ state: longest.state, checkpoint: cut, shared: lengthOf(cut) })
    }
  } else {
    const alone = checkpoint(limit)
    if (alone !== undefined) ways.push({ state: alone, shared: lengthOf(alone) })
  }
  return ways.reduce<FoundState | undefined>(
    (best, way) => (best === undefined || way.shared > best.shared ? way : best),
    undefined,
  )
}
