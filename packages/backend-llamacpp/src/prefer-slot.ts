import type { SlotId } from '@cllm/core'

/**
 * Chooses a slot such that the ids in use stay consecutive: llama.cpp puts only sequences whose ids
 * follow each other into one pass over the weights. So a slot that joins two runs of ids comes
 * first, then one beside a run, then any; among equals the first, which is the cheapest to lose.
 */
export function preferSlot(free: readonly SlotId[], used: readonly SlotId[]): SlotId {
  const taken = new Set(used)
  let best = free[0] ?? 0
  let most = -1
  for (const slot of free) {
    const neighbours = Number(taken.has(slot - 1)) + Number(taken.has(slot + 1))
    if (neighbours > most) {
      best = slot
      most = neighbours
    }
  }
  return best
}
