import type { SlotId } from '../../contracts/model/backend.js'

/** The slots between these that are not of them, lowest first: a list for each gap. */
export function slotGaps(slots: readonly SlotId[]): SlotId[][] {
  const sorted = [...slots].sort((a, b) => a - b)
  return sorted.flatMap((slot, index) => {
    const count = (sorted[index + 1] ?? slot + 1) - slot - 1
    return count > 0 ? [Array.from({ length: count }, (_, nth) => slot + 1 + nth)] : []
  })
}
