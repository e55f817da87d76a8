import { type BackendLimits, type BatchItem, slotGaps, type SlotId, type TokenId } from '@cllm/core'
import { type PassCosts, SlotLayout } from './pass-costs.js'
import type { SlotCells } from './slot-cells.js'
import type { StepPass } from './step-batch.js'

/** The token to fill up with: its logits are not used, so any token will do. */
const filler: TokenId = 0

/**
 * Slots with fewer tokens are not filled up to whole tiles: they would gain hardly anything, and as tiles round
 * differently, short conversations would not be computed the same each time.
 */
const leastTiled = 256

/** The parts of a {@link BatchFiller}. */
interface BatchFillerParts {
  readonly cells: Pick<SlotCells, 'length' | 'canSpare' | 'rollBack'>
  readonly limits: Pick<BackendLimits, 'slots' | 'batchSize'>
  /** Whether all slots share their cells, so that gaps between them cost nothing. */
  readonly kvUnified: boolean
}

/**
 * Adds tokens to a batch so that it is computed faster, by costs learned from its passes, and removes them from the
 * slots again: short chunks become whole tiles, idle slots between decodes join them, and chunks, or sequences that
 * verify drafts, get equal lengths.
 */
export class BatchFiller {
  readonly #layout: SlotLayout

  constructor(
    private readonly parts: BatchFillerParts,
    private readonly costs: PassCosts,
  ) {
    this.#layout = new SlotLayout(parts.cells, costs)
  }

  /** The items of the batch in their order, some of them longer, followed by additional ones. */
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

  /** Predicted milliseconds of a pass that decodes these items; NaN for other passes, and if unknown. */
  forecastMs(items: readonly BatchItem[], { order, isDecode }: StepPass): number {
    if (!isDecode || !this.costs.hasLearned('decode')) return NaN
    return this.costs.of('decode', passedOf(items, order))
  }

  /** The batch was computed as these items, in `ms`: removes the added tokens from the slots. */
  onComputed(batch: readonly BatchItem[], items: readonly BatchItem[], ms: number): void {
    if (isOfDrafts(batch)) this.costs.observe('drafts', items, ms)
    for (const [index, { slot, tokens }] of items.entries()) {
      if (tokens.length !== batch[index]?.tokens.length) this.parts.cells.rollBack(slot)
    }
  }

  /** Milliseconds that a step takes longer with sequences in these slots. */
  lostMs(used: readonly SlotId[]): number {
    return this.parts.kvUnified ? 0 : this.#layout.lostMs(used)
  }

  /**
   * Fills chunks up to whole tiles. On the CPU, llama.cpp computes flash attention in tiles of queries, and shorter
   * chunks query by query: behind a few hundred tokens that takes longer than a whole tile.
   */
  #inTiles(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { tile } = this.costs
    if (tile === Infinity) return batch
    // A step without such a chunk copies nothing.
    let inTiles: BatchItem[] | undefined
    let room: number | undefined
    for (const [index, item] of batch.entries()) {
      const missing = tile - item.tokens.length
      if (!canGrow(item) || missing <= 0 || item.position < leastTiled) continue
      room ??= this.#room(batch)
      if (missing > room || !this.#canSpare(item.slot, tile)) continue
      const whole = longer(item, tile)
      if (this.costs.of('chunk', [whole]) >= this.costs.of('chunk', [item])) continue
      room -= missing
      inTiles ??= [...batch]
      inTiles[index] = whole
    }
    return inTiles ?? batch
  }

  /**
   * Makes chunks equally long. Chunks of different lengths need several passes over the weights, each of which takes a
   * GPU hardly less time than a single pass for all. No chunk is filled up to a tile, which would round differently.
   */
  #equallyLong(batch: readonly BatchItem[]): readonly BatchItem[] {
    const { tile } = this.costs
    const chunks = batch.filter(isChunk)
    if (chunks.length < 2) return batch
    const room = this.#room(batch)
    let [best, leastMs] = [batch, this.costs.of('chunk', chunks)]
    for (const length of new Set(chunks.map(({ tokens }) => tokens.length))) {
      const grows = (item: BatchItem): boolean =>
        canGrow(item) &&
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
   * Makes decodes equally long. llama.cpp only joins sequences with consecutive ids and equally many tokens in a pass
   * over the weights, so sequences that verify drafts between others that do not would need several passes.
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

  /** Whether a slot can compute this many tokens that are removed again. */
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

/** Whether it may become longer. Behind an answer's tokens nothing is filled up, which would round them differently. */
const canGrow = (item: BatchItem): boolean => isChunk(item) && item.isReplay !== true

const passedOf = (items: readonly BatchItem[], order: readonly number[]): BatchItem[] =>
  order.map((index) => items[index]!)

function longer(item: BatchItem, length: number): BatchItem {
  const missing = length - item.tokens.length
  if (missing === 0) return item
  return { ...item, tokens: [...item.tokens, ...Array.from({ length: missing }, () => filler)] }
}

/** Whether several sequences decode, and some of them verify drafts. */
const isOfDrafts = (batch: readonly BatchItem[]): boolean =>
  batch.length > 1 && batch.some(({ drafts }) => drafts !== undefined) && !batch.some(isChunk)
