import type { BackendLimits, BatchItem, SlotId, TokenId } from '@cllm/core'
import type { ChunkTile } from './chunk-tile.js'
import { type EqualLength, EqualLengths } from './equal-lengths.js'
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
 * them off the slots again: short chunks become whole tiles, idle slots between decodes join them, and
 * sequences that verify drafts and those between them become equally long.
 */
export class BatchFiller {
  readonly #parts: BatchFillerParts
  readonly #layout: SlotLayout
  readonly #equalLengths: EqualLengths

  constructor(parts: BatchFillerParts) {
    this.#parts = parts
    this.#layout = new SlotLayout(parts.cells)
    this.#equalLengths = new EqualLengths(parts.cells, parts.limits)
  }

  /** The items of the batch in their order, some of them longer, and further ones. */
  filled(batch: readonly BatchItem[]): readonly BatchItem[] {
    const equal = this.#parts.kvUnified ? undefined : this.#equalLengths.choose(batch)
    if (equal !== undefined) return this.#ofLength(batch, equal)
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

  /** Learns how long all passes of a batch took, computed as these items. */
  tookAll(batch: readonly BatchItem[], items: readonly BatchItem[], milliseconds: number): void {
    this.#equalLengths.computed(batch, items, milliseconds)
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
      return longer(item, tile.size)
    })
  }

  #ofLength(batch: readonly BatchItem[], { length, idle }: EqualLength): readonly BatchItem[] {
    const between = idle.map((slot) => this.#idleItem(slot))
    return [...batch, ...between].map((item) => longer(item, length))
  }

  #betweenDecodes(batch: readonly BatchItem[]): BatchItem[] {
    const { limits, kvUnified } = this.#parts
    const decodes = batch.filter(({ tokens, slot }) => tokens.length === 1 && slot < limits.slots)
    if (kvUnified || decodes.length < 2) return []
    const used = batch.map(({ slot }) => slot)
    const decoding = decodes.map(({ slot }) => slot)
    const idle = this.#layout.fillers(decoding, used)
    if (idle.length > this.#room(batch)) return []
    return idle.map((slot) => this.#idleItem(slot))
  }

  /** A token for a slot that has nothing to compute. */
  #idleItem(slot: SlotId): BatchItem {
    return { slot, position: this.#parts.cells.length(slot), tokens: [filler], outputs: [] }
  }

  #room(batch: readonly BatchItem[]): number {
    const { batchSize } = this.#parts.limits
    return batch.reduce((left, { tokens }) => left - tokens.length, batchSize)
  }
}

function longer(item: BatchItem, length: number): BatchItem {
  const missing = length - item.tokens.length
  if (missing === 0) return item
  return { ...item, tokens: [...item.tokens, ...Array.from({ length: missing }, () => filler)] }
}
