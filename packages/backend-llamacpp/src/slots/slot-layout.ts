import { LinearFit, slotGaps, type SlotId } from '@cllm/core'
import type { SlotCells } from './slot-cells.js'

/**
 * The share of a pass that a free slot between two runs of ids costs, where it cannot be computed along:
 * the next sequence that takes it brings the runs closer to each other.
 */
const holeShare = 0.1
/** What a pass, a sequence in it and a token that it reads are taken to cost at first, each beside the others. */
const prior = [1, 0.15, 0.0005]

/**
 * The cost of gaps between slots. llama.cpp puts only sequences whose ids follow each other by one into
 * one pass over the weights, so every further run of ids is another pass: unless the idle slots between
 * them compute a token, too, which is taken off again. Costs are learned from decodes, and decide which
 * of the two is cheaper.
 */
export class SlotLayout {
  readonly #cells: Pick<SlotCells, 'length' | 'canSpare'>
  readonly #costs = new LinearFit({ prior, memory: 0.98, outlier: 3 })
  #isLearned = false

  constructor(cells: Pick<SlotCells, 'length' | 'canSpare'>) {
    this.#cells = cells
  }

  /** Learns from a decode of one token for each of these slots, whose tokens before it are theirs still. */
  decoded(slots: readonly SlotId[], milliseconds: number): void {
    if (slots.length === 0) return
    const tokens = slots.reduce((sum, slot) => sum + this.#cells.length(slot), 0)
    this.#costs.observe([slotGaps(slots).length + 1, slots.length, tokens], milliseconds)
    this.#isLearned = true
  }

  /** The idle slots, none of which is `used`, that a decode computes along to be fewer passes. */
  fillers(decoding: readonly SlotId[], used: readonly SlotId[]): SlotId[] {
    const isIdle = (slot: SlotId): boolean => !used.includes(slot)
    const idle = slotGaps(decoding).filter((gap) => gap.every(isIdle))
    return idle.filter((gap) => this.#fillMs(gap) < this.#passMs).flat()
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    if (!this.#isLearned) return 0
    return slotGaps(used).reduce((sum, gap) => {
      const apart = (1 + holeShare * gap.length) * this.#passMs
      return sum + Math.min(apart, this.#fillMs(gap))
    }, 0)
  }

  get #passMs(): number {
    return this.#costs.coefficients[0]!
  }

  #fillMs(gap: readonly SlotId[]): number {
    const [, sequenceMs, tokenMs] = this.#costs.coefficients
    return gap.reduce((sum, slot) => {
      if (!this.#cells.canSpare(slot)) return Infinity
      return sum + sequenceMs! + this.#cells.length(slot) * tokenMs!
    }, 0)
  }
}
