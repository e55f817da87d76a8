import type { Slot } from '../../engine-parts.js'
import type { SequenceRequest } from '../../requests/sequence.js'
import type { KeptState } from './saved-state.js'

/** A slot whose content is to be saved and kept. */
export interface PinnedSlot {
  readonly slot: Slot
  /** Until when; absent: for good. */
  readonly kept?: KeptState
}

/** What a request that has ended asks for: one, or nothing. */
export function pinOf(
  slot: Slot,
  { pin, keepMs, tenant }: Pick<SequenceRequest, 'pin' | 'keepMs' | 'tenant'>,
  now: number,
): readonly PinnedSlot[] {
  if (pin) return [{ slot }]
  return keepMs === undefined ? [] : [{ slot, kept: { until: now + keepMs, tenant } }]
}
