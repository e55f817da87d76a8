import { type CellPool, CllmError, type SlotId } from '@cllm/core'
import type { LogitsContext, NativeContext } from '../native/native-context.js'

/** What a model's memory is like. */
export interface CellOptions {
  /** Tokens that sliding-window layers look back; default: no layer has a window. */
  readonly slidingWindow?: number | undefined
  /** Whether layers keep a state, from which no token can be taken off; default false. */
  readonly isRecurrent?: boolean
  /** Whether a copy's data is there only after the next forward pass; default false. */
  readonly copiesLate?: boolean
  /** Cells of each slot. */
  readonly slotSize: number
  /** The cells that all slots share; default: each has its own. */
  readonly pool?: CellPool
  /** The context, where tokens can be taken out of its sequences; default: they cannot. */
  readonly shifting?: LogitsContext | undefined
}

/**
 * The KV cells of the slots and how many tokens each holds. All calls to llama.cpp that take a
 * sequence id go through here, since an unknown one would end the process.
 */
export class SlotCells {
  readonly #context: NativeContext
  readonly #lengths: number[]
  readonly #pool: CellPool | undefined
  readonly #slotSize: number
  readonly #slidingWindow: number
  readonly #isRecurrent: boolean
  readonly #copiesLate: boolean
  readonly #shifting: LogitsContext | undefined
  /** Whether the next forward pass moves tokens. */
  #isShifting = false
  /** Copies whose data the next forward pass moves. */
  readonly #copies: { readonly from: SlotId; readonly to: SlotId }[] = []

  constructor(context: NativeContext, slots: number, options: CellOptions) {
    const { slotSize, slidingWindow, isRecurrent = false, copiesLate = false } = options
    this.#context = context
    this.#lengths = Array.from({ length: slots }, () => 0)
    this.#slotSize = slotSize
    this.#slidingWindow = slidingWindow ?? 0
    this.#isRecurrent = isRecurrent
    this.#copiesLate = copiesLate
    this.#pool = options.pool
    this.#shifting = options.shifting
  }

  /** How many more tokens fit where all slots share their cells. */
  get freeTokens(): number | undefined {
    return this.#pool?.free
  }

  /** Tokens in the slot. */
  length(slot: SlotId): number {
    const length = this.#lengths[slot]
    if (length !== undefined) return length
    throw new CllmError(
      'backend_failed',
      `expected a slot from 0 to ${this.#lengths.length - 1}, got ${slot}`,
      { details: { expected: `0 to ${this.#lengths.length - 1}`, received: slot } },
    )
  }

  /** Notes that a forward pass has filled the slot up to `length`. */
  filled(slot: SlotId, length: number): void {
    this.#copies.length = 0
    this.#isShifting = false
    this.#resize(slot, length)
  }

  clear(slot: SlotId): void {
    if (this.length(slot) === 0) return
    this.#context.disposeSequence(slot)
    this.#resize(slot, 0)
  }

  /** Removes the cells from `length` on, or all cells if the model's memory cannot remove a part. */
  truncate(slot: SlotId, length: number): number {
    const held = this.length(slot)
    if (length >= held) return held
    if (length <= 0 || !this.#remove(slot, length)) {
      this.clear(slot)
      return 0
    }
    this.#resize(slot, length)
    return length
  }

  /**
   * Takes tokens out of a slot of a context that can shift.
   * @throws CllmError `backend_failed` when llama.cpp cannot, and the slot is as before
   */
  shift(slot: SlotId, keep: number, discard: number): void {
    const held = this.length(slot)
    const context = this.#shifting
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

  /**
   * Whether a forward pass can be left and undone. A recurrent state would have changed, behind a window
   * older cells would be lost, and tokens would be moved by half.
   */
  get canLeavePass(): boolean {
    return !this.#isRecurrent && this.#slidingWindow === 0 && !this.#isShifting
  }

  /** Undoes what a failed forward pass may have left in the slot. */
  rollBack(slot: SlotId): void {
    const length = this.length(slot)
    if (this.#context.getSequenceKvCacheMaxPosition(slot) < length) return
    if (!this.#context.removeTokenCellsFromSequence(slot, length, -1)) {
      this.emptied(slot)
    }
  }

  async copy(from: SlotId, to: SlotId, length: number): Promise<number> {
    const held = this.length(from)
    this.length(to)
    if (from === to) return this.truncate(to, length)
    this.clear(to)
    if (held === 0 || length <= 0) return 0
    await this.#context.copySequenceStateFromOtherSequence(to, from)
    if (this.#copiesLate) this.#copies.push({ from, to })
    this.#lengths[to] = held
    this.#pool?.copy(from, to, held)
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

  /**
   * Whether `tokens` can be computed behind those of the slot and be taken off again, with all as it was.
   * A recurrent state would change, and behind a window older cells would be lost.
   */
  canSpare(slot: SlotId, tokens = 1): boolean {
    if (this.#isRecurrent || this.#slidingWindow > 0 || this.#pool !== undefined) return false
    return this.length(slot) + tokens <= this.#slotSize && this.canWrite(slot)
  }

  /**
   * Notes that a state of `length` tokens was restored: a checkpoint leaves cells behind it. Returns
   * whether it is there, or else empties the slot.
   */
  restored(slot: SlotId, length: number, partial: boolean): boolean {
    if (partial) this.#context.removeTokenCellsFromSequence(slot, length, -1)
    if (this.#context.getSequenceKvCacheMaxPosition(slot) === length - 1) {
      this.#resize(slot, length)
      return true
    }
    this.emptied(slot)
    return false
  }

  /** Empties a slot that may hold anything. */
  emptied(slot: SlotId): void {
    this.#context.disposeSequence(slot)
    this.#resize(slot, 0)
  }

  /** Whether `truncate` would keep this many tokens. */
  canCut(slot: SlotId, length: number): boolean {
    if (length >= this.length(slot)) return true
    return length > 0 && !this.#isRecurrent && this.#seesBack(slot, length)
  }

  #resize(slot: SlotId, length: number): void {
    this.#lengths[slot] = length
    this.#pool?.resize(slot, length)
  }

  #remove(slot: SlotId, length: number): boolean {
    if (!this.#context.removeTokenCellsFromSequence(slot, length, -1)) return false
    return this.#seesBack(slot, length)
  }

  /**
   * A sliding window must still hold what the next token looks back at. Where cells are gone and no
   * window is known, nobody knows how far that is.
   */
  #seesBack(slot: SlotId, length: number): boolean {
    const first = this.#context.getSequenceKvCacheMinPosition(slot)
    const window = this.#slidingWindow
    return first === 0 || (window > 0 && first > 0 && first <= length - window)
  }
}
