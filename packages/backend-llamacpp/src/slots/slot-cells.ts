import { type CellPool, CllmError, type SlotId } from '@cllm/core'
import { cutsAnywhere, type MemoryKind } from '../model/model-shape.js'
import type { LogitsContext, NativeContext } from '../native/native-context.js'

/** A run of vectors in a slot that takes other positions than as many tokens, or must be computed as a whole. */
export interface PlacedRun {
  /** The index of the first vector in the slot. */
  readonly start: number
  readonly length: number
  /** The number of positions that the run takes. */
  readonly positions: number
  /** Whether llama.cpp stores all of them at the position of the first. */
  readonly isGrid: boolean
}

/** The properties of a model's memory. */
interface CellOptions extends MemoryKind {
  /** Whether a copy's data is only there after the next forward pass. */
  readonly copiesLate: boolean
  /** Cells of each slot. */
  readonly slotSize: number
  /** The cells that all slots share; default: each has its own. */
  readonly pool?: CellPool
  /** The context, if it can shift; undefined: it cannot. */
  readonly shifting: LogitsContext | undefined
  /** Whether tokens may be computed that are removed again. */
  readonly canPad: boolean
}

/**
 * The KV cells of the slots, and the number of tokens in each. All calls to llama.cpp with a sequence id go through
 * here, since an unknown one would end the process.
 */
export class SlotCells {
  readonly #lengths: number[]
  /** By slot: its runs, in rising order. */
  readonly #runs: PlacedRun[][]
  readonly #canUndo: boolean
  /** Whether the next forward pass moves tokens. */
  #isShifting = false
  /** Copies whose data is moved by the next forward pass. */
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

  /** How many more tokens fit into the pool, if all slots share their cells. */
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

  /** The runs of the slot, which a saved state does not contain. */
  runs(slot: SlotId): readonly PlacedRun[] {
    return this.#runs[slot] ?? []
  }

  /** Notes vectors that are about to be computed, or a further part of them. */
  place(slot: SlotId, run: PlacedRun): void {
    const others = this.runs(slot).filter(({ start }) => start < run.start)
    this.#runs[slot] = [...others, run]
  }

  /** llama.cpp's position of the token with this index in the slot; of a vector in a grid, the position of the first. */
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

  /** Removes the tokens from `length` on, or all tokens if the model's memory cannot remove a part. */
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
   * Removes tokens from the middle of a slot, in a context that can shift.
   * @throws CllmError `backend_failed` if llama.cpp cannot; the slot is as before
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

  /** Whether a forward pass can be interrupted and undone: not one that also shifts tokens, which may be half done. */
  get canLeavePass(): boolean {
    return this.#canUndo && !this.#isShifting
  }

  /** Undoes what a failed forward pass may have left in the slot. */
  rollBack(slot: SlotId): void {
    const length = this.length(slot)
    // a part of a run cannot be removed
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

  /** Whether the slot's data is there, and not only after the next forward pass. */
  canRead(slot: SlotId): boolean {
    return this.length(slot) > 0 && this.#copies.every(({ to }) => to !== slot)
  }

  /** Whether no copy reads the data of the slot, or writes it, when the next forward pass begins. */
  canWrite(slot: SlotId): boolean {
    return this.#copies.every(({ from, to }) => from !== slot && to !== slot)
  }

  /** Whether `tokens` tokens can be computed behind the slot's content and removed again without a trace. */
  canSpare(slot: SlotId, tokens = 1): boolean {
    const { canPad, pool, slotSize } = this.options
    if (!canPad || !this.#canUndo || pool !== undefined) return false
    const length = this.length(slot)
    const isBetween = this.#runAt(slot, length) === undefined
    return length + tokens <= slotSize && isBetween && this.canWrite(slot)
  }

  /**
   * Notes that a state of `length` tokens was restored, and removes cells that a checkpoint leaves behind it. If that
   * fails, empties the slot and returns false.
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

  /** Empties a slot with unknown content. */
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

  /** The run that contains an index. */
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
   * Whether a sliding window still has all tokens that the next one attends to. If cells are gone and the window's
   * size is unknown, that is unknown, too.
   */
  #seesBack(slot: SlotId, length: number): boolean {
    const first = this.context.getSequenceKvCacheMinPosition(slot)
    const { slidingWindow: window = Infinity } = this.options
    return first === 0 || (first > 0 && first <= this.positionOf(slot, length) - window)
  }
}
