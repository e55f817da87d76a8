import type { CacheOrigin } from '../../../contracts/engine/request-report.js'
import type { Sequence } from '../../requests/sequence.js'
import type { SlotChoice } from '../slot-choice.js'
import type { StateCache } from './state-cache.js'

/**
 * Where the first tokens of a sequence were, or why they were nowhere.
 *
 * @param known - how many of them some conversation has
 */
export function originOf(
  { slot, source, shared, found, checkpoint }: SlotChoice,
  sequence: Sequence,
  known: number,
  { reader, cutsAnywhere }: Pick<StateCache, 'reader' | 'cutsAnywhere'>,
): CacheOrigin {
  const { computedTokens, request } = sequence
  if (computedTokens > 0) {
    if (found !== undefined) {
      return { from: reader.isFromFile(found, sequence) ? 'disk' : 'ram' }
    }
    if (checkpoint !== undefined) return { from: 'checkpoint' }
    return { from: slot === source ? 'slot' : 'copy' }
  }
  if (!request.cache) return { from: 'none', why: 'off' }
  if (shared > 0) return { from: 'none', why: 'failed' }
  if (known === 0) return { from: 'none', why: 'unknown' }
  return { from: 'none', why: cutsAnywhere ? 'computing_is_faster' : 'cannot_be_cut' }
}
