import type { SlotId } from '@cllm/core'

/**
 * Chooses a slot such that the ids in use stay consecutive: llama.cpp puts only sequences whose ids
 * follow each other into one pass over the weights. So a slot that joins two runs of ids comes
 * first, then one beside a run, then any; among equals one between the ids in use, and then the
 * first, which is the cheapest to lose.
 */
export function preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
  const taken = new Set(used)
  let best = free[0] ?? 0
  let most = -1
  const lowest = Math.min(...used)
  const highest = Math.max(...used)
  for (const slot of free) {
    const neighbours = Number(taken.has(slot - 1)) + Number(taken.has(slot + 1))
    const isBetween = slot > lowest && slot < highest
    const score = 2 * neighbours + Number(isBetween)
    if (score > most) {
      best = slot
      most = score
    }
  }
  return best
}
