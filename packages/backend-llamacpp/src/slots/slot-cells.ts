import { type CellPool, CllmError, type SlotId } from '@cllm/core'
import { cutsAnywhere, type MemoryKind } from '../model/model-shape.js'
import type { LogitsContext, NativeContext } from '../native/native-context.js'

/** Vectors in a slot that take other positions than as many tokens, or none without the others. */
export interface PlacedRun {
  /** The index of the first in the slot. */
  readonly start: number
  readonly length: number
  /** Positions that they take. */
  readonly positions: number
  /** Whether llama.cpp keeps all of them at the position of the first. */
  readonly isGrid: boolean
}

/** What a model's memory is like. */
interface CellOptions extends MemoryKind {
  /** Whether a copy's data is there only after the next forward pass. */
  readonly copiesLate: boolean
  /** Cells of each slot. */
  readonly slotSize: number
  /** The cells that all slots share; default: each has its own. */
  readonly pool?: CellPool
  /** The context, where tokens can be taken out of its sequences; undefined: they cannot. */
  readonly shifting: LogitsContext | undefined
}

/**
 * The KV cells of the slots and how many tokens each holds. All calls to llama.cpp that take a
 * sequence id go through here, since an unknown one would end the process.
 */
export class SlotCells {
  readonly #lengths: number[]
  /** Those of each slot, rising. */
  readonly #runs: PlacedRun[][]
  readonly #canUndo: boolean
  /** Whether the next forward pass moves tokens. */
  #isShifting = false
  /** Copies whose data the next forward pass moves. */
  readonly #copies: { readonly from: SlotId; readonly to: SlotId }[] = []

  constructor(
    private readonly context: NativeContext,
    slots: number,
    private readonly options: CellOptions,
  ) {
    this.#lengths = Array.from({ length: slots }, () => 0)
    this.#runs = this.#lengths.map(() => [])
    this.#canUndo = cutsAnywhere(options)
  }

  /** How many more tokens fit where all slots share their cells. */
  get freeTokens(): number | undefined {
    return this.options.pool?.free
  }

  /** Tokens in the slot. */
  length(slot: SlotId): number {
    const length = this.#lengths[slot]
    if (length !== undefined) return length
    const expected = `0 to ${this.#lengths.length - 1}`
    const message = `expected a slot from ${expected}, got ${slot}`
    throw new CllmError('backend_failed', message, { details: { expected, received: slot } })
  }

  /** Notes that a forward pass has filled the slot up to `length`. */
  filled(slot: SlotId, length: number): void {
    this.#copies.length = 0
    this.#isShifting = false
    this.#resize(slot, length)
  }

  /** The runs of the slot, which a state does not tell of. */
  runs(slot: SlotId): readonly PlacedRun[] {
    return this.#runs[slot] ?? []
  }

  /** Notes vectors that are about to be computed, or a further part of them. */
  place(slot: SlotId, run: PlacedRun): void {
    const others = this.runs(slot).filter(({ start }) => start < run.start)
    this.#runs[slot] = [...others, run]
  }

  /** The position in llama.cpp of the token with an index in the slot; of a vector in a grid, that of the first. */
  positionOf(slot: SlotId, index: number): number {
    let position = index
    for (const { start, length, positions, isGrid } of this.#runs[slot] ?? []) {
      if (index >= start + length) position += positions - length
      else if (isGrid && index > start) position += start - index
    }
    return position
  }

  clear(slot: SlotId): void {
    if (this.length(slot) === 0) return
    this.context.disposeSequence(slot)
    this.#resize(slot, 0)
  }

  /** Removes the cells from `length` on, or all cells if the model's memory cannot remove a part. */
  truncate(slot: SlotId, length: number): number {
    const held = this.length(slot)
    if (length >= held) return held
    const kept = this.#runAt(slot, length)?.start ?? length
    if (kept <= 0 || !this.#remove(slot, kept)) {
      this.clear(slot)
      return 0
    }
    this.#resize(slot, kept)
    return kept
  }

  /**
   * Takes tokens out of a slot of a context that can shift.
   * @throws CllmError `backend_failed` when llama.cpp cannot, and the slot is as before
   */
  shift(slot: SlotId, keep: number, discard: number): void {
    const held = this.length(slot)
    const context = this.options.shifting
    const isWithin = keep >= 0 && discard > 0 && keep + discard <= held && this.canWrite(slot)
    if (
      context === undefined ||
      !isWithin ||
      !context.removeTokenCellsFromSequence(slot, keep, keep + discard)
    ) {
      const message = `slot ${slot} with ${held} tokens cannot lose ${discard} after ${keep}`
      throw new CllmError('backend_failed', message)
    }
    context.shiftSequence(slot, keep + discard, -discard)
    this.#isShifting = true
    this.#resize(slot, held - discard)
  }

  /** Whether a forward pass can be left and undone: where it moves tokens, it would have by half. */
  get canLeavePass(): boolean {
    return this.#canUndo && !this.#isShifting
  }

  /** Undoes what a failed forward pass may have left in the slot. */
  rollBack(slot: SlotId): void {
    const length = this.length(slot)
    // parts of a run cannot be told from each other
    if (this.#runAt(slot, length) !== undefined) return this.emptied(slot)
    this.#resize(slot, length)
    const last = this.context.getSequenceKvCacheMaxPosition(slot)
    if (last >= this.positionOf(slot, length) && !this.#remove(slot, length)) this.emptied(slot)
  }

  async copy(from: SlotId, to: SlotId, length: number): Promise<number> {
    const held = this.length(from)
    this.length(to)
    if (from === to) return this.truncate(to, length)
    this.clear(to)
    if (held === 0 || length <= 0) return 0
    await this.context.copySequenceStateFromOtherSequence(to, from)
    if (this.options.copiesLate) this.#copies.push({ from, to })
    this.#lengths[to] = held
    this.#runs[to] = [...this.runs(from)]
    this.options.pool?.copy(from, to, held)
    return this.truncate(to, length)
  }

  /** Whether the data of the slot is there, and not only promised by a copy. */
  canRead(slot: SlotId): boolean {
    return this.length(slot) > 0 && this.#copies.every(({ to }) => to !== slot)
  }

  /** Whether no copy reads the data of the slot, or writes it, when the next forward pass begins. */
  canWrite(slot: SlotId): boolean {
    return this.#copies.every(({ from, to }) => from !== slot && to !== slot)
  }

  /** Whether `tokens` can be computed behind those of the slot and be taken off again, with all as it was. */
  canSpare(slot: SlotId, tokens = 1): boolean {
    if (!this.#canUndo || this.options.pool !== undefined) return false
    const length = this.length(slot)
    const isBetween = this.#runAt(slot, length) === undefined
    return length + tokens <= this.options.slotSize && isBetween && this.canWrite(slot)
  }

  /**
   * Notes that a state of `length` tokens was restored: a checkpoint leaves cells behind it. Returns
   * whether it is there, or else empties the slot.
   */
  restored(
    slot: SlotId,
    length: number,
    partial: boolean,
    runs: readonly PlacedRun[] = [],
  ): boolean {
    this.#runs[slot] = [...runs]
    const end = this.positionOf(slot, length)
    if (partial) this.context.removeTokenCellsFromSequence(slot, end, -1)
    if (this.context.getSequenceKvCacheMaxPosition(slot) === this.positionOf(slot, length - 1)) {
      this.#resize(slot, length)
      return true
    }
    this.emptied(slot)
    return false
  }

  /** Empties a slot that may hold anything. */
  emptied(slot: SlotId): void {
    this.context.disposeSequence(slot)
    this.#resize(slot, 0)
  }

  /** Whether `truncate` would keep this many tokens. */
  canCut(slot: SlotId, length: number): boolean {
    if (length >= this.length(slot)) return true
    const isBetween = this.#runAt(slot, length) === undefined
    return length > 0 && isBetween && !this.options.isRecurrent && this.#seesBack(slot, length)
  }

  /** The run that an index is within. */
  #runAt(slot: SlotId, index: number): PlacedRun | undefined {
    return this.runs(slot).find(({ start, length }) => start < index && index < start + length)
  }

  #resize(slot: SlotId, length: number): void {
    const runs = this.#runs[slot]
    if (runs !== undefined && runs.length > 0)
      this.#runs[slot] = runs.filter(({ start }) => start < length)
    this.#lengths[slot] = length
    this.options.pool?.resize(slot, length)
  }

  #remove(slot: SlotId, length: number): boolean {
    const position = this.positionOf(slot, length)
    if (!this.context.removeTokenCellsFromSequence(slot, position, -1)) return false
    return this.#seesBack(slot, length)
  }

  /**
   * A sliding window must still hold what the next token looks back at. Where cells are gone and no
   * window is known, nobody knows how far that is.
   */
  #seesBack(slot: SlotId, length: number): boolean {
    const first = this.context.getSequenceKvCacheMinPosition(slot)
    const { slidingWindow: window = Infinity } = this.options
    return first === 0 || (first > 0 && first <= this.positionOf(slot, length) - window)
  }
}
