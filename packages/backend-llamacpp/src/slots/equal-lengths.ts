import { type BackendLimits, type BatchItem, LinearFit, slotGaps, type SlotId } from '@cllm/core'
import type { SlotCells } from './slot-cells.js'

/** What a pass, each of its tokens, and a token and one that it reads are taken to cost at first, each beside the others. */
const prior = [20, 3, 0.003]

/** How a batch becomes one pass. */
export interface EqualLength {
  /** Tokens of each sequence. */
  readonly length: number
  /** Slots between them that have nothing to compute, and do, too. */
  readonly idle: readonly SlotId[]
}

/**
 * Says when a step that verifies drafts is computed in one pass of equal lengths. llama.cpp puts only
 * sequences into one pass over the weights whose ids follow each other and that compute equally many tokens:
 * where some verify drafts between others that do not, there is a pass for each few of them. With further
 * tokens, which are taken off again, all of them are one. Costs are learned from the steps with drafts.
 */
export class EqualLengths {
  readonly #cells: Pick<SlotCells, 'length' | 'canSpare'>
  readonly #limits: Pick<BackendLimits, 'slots' | 'batchSize'>
  readonly #costs = new LinearFit({ prior, memory: 0.95, outlier: 3 })

  constructor(
    cells: Pick<SlotCells, 'length' | 'canSpare'>,
    limits: Pick<BackendLimits, 'slots' | 'batchSize'>,
  ) {
    this.#cells = cells
    this.#limits = limits
  }

  /** How to compute this batch in one pass; undefined: it takes less time as it is. */
  choose(batch: readonly BatchItem[]): EqualLength | undefined {
    if (!isOfDrafts(batch)) return undefined
    const { slots, batchSize } = this.#limits
    const length = Math.max(...batch.map(({ tokens }) => tokens.length))
    const used = batch.map(({ slot }) => slot)
    const idle = slotGaps(used).flat()
    const all = [...used, ...idle]
    const fits = length * all.length <= batchSize && all.every((slot) => slot < slots)
    if (!fits || !all.every((slot) => this.#cells.canSpare(slot, length))) return undefined
    const reads = all.reduce(
      (sum, slot) => sum + length * (this.#cells.length(slot) + length / 2),
      0,
    )
    const together = this.#costs.predict([1, length * all.length, reads])
    return together < this.#costs.predict(featuresOf(batch)) ? { length, idle } : undefined
  }

  /** Learns how long a batch took, computed as these items. */
  computed(batch: readonly BatchItem[], items: readonly BatchItem[], milliseconds: number): void {
    if (isOfDrafts(batch)) this.#costs.observe(featuresOf(items), milliseconds)
  }
}

/** Whether several sequences decode, and some of them verify drafts. */
function isOfDrafts(batch: readonly BatchItem[]): boolean {
  const isDecode = ({ tokens, drafts }: BatchItem) => tokens.length === 1 || drafts !== undefined
  return (
    batch.length > 1 && batch.some(({ drafts }) => drafts !== undefined) && batch.every(isDecode)
  )
}

function featuresOf(batch: readonly BatchItem[]): number[] {
  let [count, reads] = [0, 0]
  for (const { position, tokens } of batch) {
    count += tokens.length
    reads += tokens.length * (position + tokens.length / 2)
  }
  return [passesOf(batch), count, reads]
}

/** The passes that llama.cpp makes of a batch: each of as many tokens of slots that follow each other. */
function passesOf(batch: readonly BatchItem[]): number {
  let left = batch.map(({ slot, tokens }) => ({ slot, tokens: tokens.length }))
  left.sort((a, b) => a.slot - b.slot)
  let passes = 0
  while (left.length > 0) {
    const first = left[0]!.slot
    const run = left.filter(({ slot }, index) => slot === first + index)
    const least = Math.min(...run.map(({ tokens }) => tokens))
    for (const part of run) part.tokens -= least
    left = left.filter(({ tokens }) => tokens > 0)
    passes++
  }
  return passes
}
