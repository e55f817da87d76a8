import type { BackendLimits, BatchItem, SlotId, TokenId } from '@cllm/core'
import type { ChunkTile } from './chunk-tile.js'
import type { SlotCells } from './slot-cells.js'
import { SlotLayout } from './slot-layout.js'
import type { StepPass } from './step-batch.js'

/** What is computed along: its logits are not wanted, so any token will do. */
const filler: TokenId = 0

/** What a {@link BatchFiller} works with. */
export interface BatchFillerParts {
  readonly cells: Pick<SlotCells, 'length' | 'canSpare' | 'rollBack'>
  readonly limits: Pick<BackendLimits, 'slots' | 'batchSize'>
  /** Whether all slots share their cells, so that gaps between them cost nothing. */
  readonly kvUnified: boolean
  /** How short chunks are computed, where attention has tiles; default: as they are. */
  readonly tile?: ChunkTile | undefined
}

/**
 * Adds tokens to a batch with which it is computed sooner, by costs learned from its passes, and takes
 * them off the slots again: short chunks become whole tiles, and idle slots between decodes join them.
 */
export class BatchFiller {
  readonly #parts: BatchFillerParts
  readonly #layout: SlotLayout

  constructor(parts: BatchFillerParts) {
    this.#parts = parts
    this.#layout = new SlotLayout(parts.cells)
  }

  /** The items of the batch in their order, some of them longer, and further ones. */
  filled(batch: readonly BatchItem[]): readonly BatchItem[] {
    const inTiles = this.#inTiles(batch)
    return [...inTiles, ...this.#betweenDecodes(inTiles)]
  }

  /** Learns how long a pass of these items took. */
  took(items: readonly BatchItem[], { order, isDecode }: StepPass, milliseconds: number): void {
    const [first, second] = order.map((index) => items[index]!)
    if (isDecode) {
      const slots = order.map((index) => items[index]!.slot)
      this.#layout.decoded(slots, milliseconds)
    } else if (first !== undefined && second === undefined) {
      this.#parts.tile?.computed(first.tokens.length, first.position, milliseconds)
    }
  }

  /** Takes off what these items have beyond the batch. */
  takeOff(batch: readonly BatchItem[], items: readonly BatchItem[]): void {
    for (const [index, { slot, tokens }] of items.entries()) {
      if (tokens.length !== batch[index]?.tokens.length) this.#parts.cells.rollBack(slot)
    }
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    return this.#parts.kvUnified ? 0 : this.#layout.lostMs(used)
  }

  #inTiles(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { cells, limits, tile } = this.#parts
    if (tile === undefined) return batch
    let room = this.#room(batch)
    return batch.map((item) => {
      const { slot, position, tokens, drafts } = item
      const missing = tile.size - tokens.length
      const isShort = tokens.length > 1 && missing > 0 && drafts === undefined
      if (!isShort || missing > room || !tile.pays(tokens.length, position)) return item
      if (slot >= limits.slots || !cells.canSpare(slot, tile.size)) return item
      room -= missing
      return { ...item, tokens: [...tokens, ...Array.from({ length: missing }, () => filler)] }
    })
  }

  #betweenDecodes(batch: readonly BatchItem[]): BatchItem[] {
    const { cells, limits, kvUnified } = this.#parts
    const decodes = batch.filter(({ tokens, slot }) => tokens.length === 1 && slot < limits.slots)
    if (kvUnified || decodes.length < 2) return []
    const used = batch.map(({ slot }) => slot)
    const decoding = decodes.map(({ slot }) => slot)
    const idle = this.#layout.fillers(decoding, used)
    if (idle.length > this.#room(batch)) return []
    return idle.map((slot) => {
      return { slot, position: cells.length(slot), tokens: [filler], outputs: [] }
    })
  }

  #room(batch: readonly BatchItem[]): number {
    const { batchSize } = this.#parts.limits
    return batch.reduce((left, { tokens }) => left - tokens.length, batchSize)
  }
}
