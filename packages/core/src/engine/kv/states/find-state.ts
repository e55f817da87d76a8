import type { SlotStates } from '../../../contracts/model/slot-states.js'
import type { Sequence } from '../../requests/sequence.js'
import { minimumWait } from '../prefix-index.js'
import { bytesOf, type FiledState, type FoundState } from './saved-state.js'
import { lengthOf, type StateIndex } from './state-index.js'
import type { StateStore } from './state-store.js'

type Tokens = Pick<SlotStates, 'cutsAnywhere' | 'checkpointNeedsPrefix'>

/**
 * The way to the most tokens of a sequence with what is in RAM; or with files, where that is many more
 * tokens. A state of either may be cut back to a checkpoint of the other.
 */
export function findInTiers(
  ram: Pick<StateStore, 'index' | 'holds'>,
  files: StateIndex<FiledState> | undefined,
  sequence: Sequence,
  states: Tokens,
): FoundState | undefined {
  const inRam = (limit: number) => ram.index.exact(sequence, true, limit)
  const best = findState(ram.index, sequence, states, inRam)
  if (files === undefined) return best
  const anywhere = (limit: number) =>
    longer(inRam(limit), files.exact(sequence, true, limit), lengthOf)
  const first = states.cutsAnywhere ? best : findState(ram.index, sequence, states, anywhere)
  const second = findState(files, sequence, states, anywhere)
  const found = longer(first, second, ({ shared }) => shared)
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
    (best, way) => longer(best, way, ({ shared }) => shared),
    undefined,
  )
}

/** The longer one of two that may be there; of equals the first. */
function longer<One, Other>(
  one: One | undefined,
  other: Other | undefined,
  length: (one: One | Other) => number,
): One | Other | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return length(other) > length(one) ? other : one
}
