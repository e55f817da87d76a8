import type { SlotId } from '@cllm/core'

/**
 * The share of a pass that a free slot between two runs of ids costs: the next sequence that takes it
 * brings the runs closer to each other.
 */
const holeShare = 0.1
/** Weight of one decode in the moving average of the pass time. */
const weight = 1 / 8

/**
 * The cost of gaps between slots. llama.cpp puts only sequences whose ids follow each other by one into
 * one pass over the weights, so every further run of ids is another pass.
 */
export class SlotLayout {
  #passMs: number | undefined

  /**
   * Learns from a decode of one token for each of these slots. A pass and a sequence are taken for
   * equally long, which is so on a CPU; where a pass is longer than that, gaps are taken for cheaper
   * than they are.
   */
  decoded(slots: readonly SlotId[], milliseconds: number): void {
    if (slots.length === 0) return
    const measured = milliseconds / (runs(slots) + slots.length)
    this.#passMs ??= measured
    this.#passMs += weight * (measured - this.#passMs)
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    if (used.length === 0) return 0
    const holes = Math.max(...used) - Math.min(...used) + 1 - used.length
    return (runs(used) - 1 + holeShare * holes) * (this.#passMs ?? 0)
  }
}

/** How many runs of consecutive ids there are. */
function runs(slots: readonly SlotId[]): number {
  const all = new Set(slots)
  return slots.filter((slot) => !all.has(slot - 1)).length
}
