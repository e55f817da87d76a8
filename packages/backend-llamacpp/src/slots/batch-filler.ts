import { type BackendLimits, type BatchItem, slotGaps, type SlotId, type TokenId } from '@cllm/core'
import { type PassCosts, SlotLayout } from './pass-costs.js'
import type { SlotCells } from './slot-cells.js'
import type { StepPass } from './step-batch.js'

/** What is computed along: its logits are not wanted, so any token will do. */
const filler: TokenId = 0

/**
 * Tiles round differently. Behind fewer tokens they gain hardly anything, and short conversations are computed
 * the same each time.
 */
const leastTiled = 256

/** What a {@link BatchFiller} works with. */
interface BatchFillerParts {
  readonly cells: Pick<SlotCells, 'length' | 'canSpare' | 'rollBack'>
  readonly limits: Pick<BackendLimits, 'slots' | 'batchSize'>
  /** Whether all slots share their cells, so that gaps between them cost nothing. */
  readonly kvUnified: boolean
}

/**
 * Adds tokens to a batch with which it is computed sooner, by costs learned from its passes, and takes
 * them off the slots again: short chunks become whole tiles, idle slots between decodes join them, and
 * chunks beside each other become equally long, and so do sequences that verify drafts and those between them.
 */
export class BatchFiller {
  readonly #layout: SlotLayout

  constructor(
    private readonly parts: BatchFillerParts,
    private readonly costs: PassCosts,
  ) {
    this.#layout = new SlotLayout(parts.cells, costs)
  }

  /** The items of the batch in their order, some of them longer, and further ones. */
  filled(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { kvUnified } = this.parts
    if (!kvUnified && isOfDrafts(batch)) {
      const equal = this.#inOnePass(batch)
      if (equal !== undefined) return equal
    }
    const inTiles = this.#inTiles(batch)
    if (kvUnified || batch.length < 2) return inTiles
    const equal = this.#equallyLong(inTiles)
    const idle = this.#betweenDecodes(equal)
    return idle.length === 0 ? equal : [...equal, ...idle]
  }

  /** Learns how long a pass of these items took. */
  observePass(items: readonly BatchItem[], { order, isDecode }: StepPass, ms: number): void {
    const passed = passedOf(items, order)
    if (isDecode) this.costs.observe('decode', passed, ms)
    else if ((passed.length === 1 || !this.parts.kvUnified) && passed.every(isChunk)) {
      this.costs.observe('chunk', passed, ms)
    }
  }

  /** How long a pass that decodes these items will take; NaN for others, and where it is not known. */
  forecastMs(items: readonly BatchItem[], { order, isDecode }: StepPass): number {
    if (!isDecode || !this.costs.hasLearned('decode')) return NaN
    return this.costs.of('decode', passedOf(items, order))
  }

  /** All passes of a batch, computed as these items, took this long: what is beyond the batch is taken off. */
  onComputed(batch: readonly BatchItem[], items: readonly BatchItem[], ms: number): void {
    if (isOfDrafts(batch)) this.costs.observe('drafts', items, ms)
    for (const [index, { slot, tokens }] of items.entries()) {
      if (tokens.length !== batch[index]?.tokens.length) this.parts.cells.rollBack(slot)
    }
  }

  /** Milliseconds that a step loses with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    return this.parts.kvUnified ? 0 : this.#layout.lostMs(used)
  }

  /**
   * On the CPU, llama.cpp computes flash attention in tiles of queries, and a chunk with fewer query by query:
   * behind some hundred tokens that takes longer than a tile, the rest of which may be any tokens.
   */
  #inTiles(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { tile } = this.costs
    if (tile === Infinity) return batch
    let inTiles: BatchItem[] | undefined
    let room: number | undefined
    for (const [index, item] of batch.entries()) {
      const missing = tile - item.tokens.length
      if (!isChunk(item) || missing <= 0 || item.position < leastTiled) continue
      room ??= this.#room(batch)
      if (missing > room) continue
      const whole = longer(item, tile)
      if (this.costs.of('chunk', [whole]) >= this.costs.of('chunk', [item])) continue
      if (!this.#canSpare(item.slot, tile)) continue
      room -= missing
      inTiles ??= [...batch]
      inTiles[index] = whole
    }
    return inTiles ?? batch
  }

  /**
   * Chunks of different lengths are several passes over the weights, too, each hardly shorter on a GPU than one of all: the
   * shorter ones become as long as another one. None becomes a tile, which rounds differently.
   */
  #equallyLong(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { tile } = this.costs
    const chunks = batch.filter(isChunk)
    if (chunks.length < 2) return batch
    const room = this.#room(batch)
    let [best, leastMs] = [batch, this.costs.of('chunk', chunks)]
    for (const length of new Set(chunks.map(({ tokens }) => tokens.length))) {
      const grows = (item: BatchItem): boolean =>
        isChunk(item) &&
        item.tokens.length < length &&
        item.tokens.length < tile === length < tile &&
        this.#canSpare(item.slot, length)
      const added = batch.filter(grows).reduce((sum, { tokens }) => sum + length - tokens.length, 0)
      if (added === 0 || added > room) continue
      const equal = batch.map((item) => (grows(item) ? longer(item, length) : item))
      const ms = this.costs.of('chunk', equal.filter(isChunk))
      if (ms < leastMs) [best, leastMs] = [equal, ms]
    }
    return best
  }

  /**
   * llama.cpp puts only sequences into one pass over the weights whose ids follow each other and that compute
   * equally many tokens: where some verify drafts between others that do not, there is a pass for each few of
   * them. With further tokens all of them are one.
   */
  #inOnePass(batch: readonly BatchItem[]): readonly BatchItem[] | undefined {
    const length = Math.max(...batch.map(({ tokens }) => tokens.length))
    const idle = slotGaps(batch.map(({ slot }) => slot)).flat()
    const all = [...batch, ...idle.map((slot) => this.#idleItem(slot))]
    const fits = length * all.length <= this.parts.limits.batchSize
    if (!fits || !all.every(({ slot }) => this.#canSpare(slot, length))) return undefined
    const equal = all.map((item) => longer(item, length))
    return this.costs.of('drafts', equal) < this.costs.of('drafts', batch) ? equal : undefined
  }

  #betweenDecodes(batch: readonly BatchItem[]): BatchItem[] {
    const { limits } = this.parts
    const decodes = batch.filter(({ tokens, slot }) => tokens.length === 1 && slot < limits.slots)
    if (decodes.length < 2) return []
    const used = batch.map(({ slot }) => slot)
    const decoding = decodes.map(({ slot }) => slot)
    const idle = this.#layout.fillers(decoding, used)
    return idle.length > this.#room(batch) ? [] : idle.map((slot) => this.#idleItem(slot))
  }

  /** A token for a slot that has nothing to compute. */
  #idleItem(slot: SlotId): BatchItem {
    return { slot, position: this.parts.cells.length(slot), tokens: [filler], outputs: [] }
  }

  /** Whether a slot can compute as many tokens that are taken off again. */
  #canSpare(slot: SlotId, tokens: number): boolean {
    return slot < this.parts.limits.slots && this.parts.cells.canSpare(slot, tokens)
  }

  #room(batch: readonly BatchItem[]): number {
    const { batchSize } = this.parts.limits
    return batch.reduce((left, { tokens }) => left - tokens.length, batchSize)
  }
}

/** Whether it is a part of a prompt. */
const isChunk = ({ tokens, drafts }: BatchItem): boolean =>
  tokens.length > 1 && drafts === undefined

const passedOf = (items: readonly BatchItem[], order: readonly number[]): BatchItem[] =>
  order.map((index) => items[index]!)

function longer(item: BatchItem, length: number): BatchItem {
  const missing = length - item.tokens.length
  if (missing === 0) return item
  return { ...item, tokens: [...item.tokens, ...Array.from({ length: missing }, () => filler)] }
}

/** Whether several sequences decode, and some of them verify drafts. */
function isOfDrafts(batch: readonly BatchItem[]): boolean {
  let isDrafted = false
  for (const { tokens, drafts } of batch) {
    if (drafts !== undefined) isDrafted = true
    else if (tokens.length > 1) return false
  }
  return isDrafted && batch.length > 1
}
