import { slotGaps, type SlotId } from '@cllm/core'
import type { PassCosts } from './pass-costs.js'
import type { SlotCells } from './slot-cells.js'

/**
 * The share of a pass that a free slot between two runs of ids costs, where it cannot be computed along:
 * the next sequence that takes it brings the runs closer to each other.
 */
const holeShare = 0.1

/**
 * The cost of gaps between slots. llama.cpp puts only sequences whose ids follow each other by one into
 * one pass over the weights, so every further run of ids is another pass: unless the idle slots between
 * them compute a token, too, which is taken off again. Costs that were learned from decodes decide which
 * of the two is cheaper.
 */
export class SlotLayout {
  readonly #cells: Pick<SlotCells, 'length' | 'canSpare'>
  readonly #costs: PassCosts

  constructor(cells: Pick<SlotCells, 'length' | 'canSpare'>, costs: PassCosts) {
    this.#cells = cells
    this.#costs = costs
  }

  /** The idle slots, none of which is `used`, that a decode computes along to be fewer passes. */
  fillers(decoding: readonly SlotId[], used: readonly SlotId[]): SlotId[] {
    const isIdle = (slot: SlotId): boolean => !used.includes(slot)
    const idle = slotGaps(decoding).filter((gap) => gap.every(isIdle))
    return idle.filter((gap) => this.#fillMs(gap) < this.#costs.decode.pass).flat()
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    if (!this.#costs.hasLearned('decode')) return 0
    return slotGaps(used).reduce((sum, gap) => {
      const apart = (1 + holeShare * gap.length) * this.#costs.decode.pass
      return sum + Math.min(apart, this.#fillMs(gap))
    }, 0)
  }

  #fillMs(gap: readonly SlotId[]): number {
    const { sequence, read } = this.#costs.decode
    return gap.reduce((sum, slot) => {
      if (!this.#cells.canSpare(slot)) return Infinity
      return sum + sequence + this.#cells.length(slot) * read
    }, 0)
  }
}

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
