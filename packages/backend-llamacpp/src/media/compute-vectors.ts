import { type BatchItem, CllmError } from '@cllm/core'
import type { LogitsContext } from '../native/native-context.js'
import type { SlotCells } from '../slots/slot-cells.js'

/** The part of a batch behind its vectors. */
interface TextOfBatch {
  readonly items: readonly BatchItem[]
  /** The index of each item in the batch. */
  readonly places: readonly number[]
}

/**
 * Computes each item up to its last vector. A batch of llama.cpp has only tokens or only vectors, so these are separate
 * passes.
 * @throws CllmError `backend_failed`; the slots are as before
 */
export async function computeVectors(
  batch: readonly BatchItem[],
  cells: SlotCells,
  context: LogitsContext,
): Promise<TextOfBatch> {
  const items: BatchItem[] = []
  const places: number[] = []
  try {
    for (const [index, item] of batch.entries()) {
      const { media, ...text } = item
      const from = media === undefined ? 0 : await computeItem(item, media, cells, context)
      if (from > 0) cells.filled(item.slot, item.position + from)
      if (from === item.tokens.length) continue
      items.push({ ...text, position: item.position + from, tokens: item.tokens.slice(from) })
      places.push(index)
    }
    return { items, places }
  } catch (error) {
    undoVectors(batch, cells)
    throw error
  }
}

/** Removes what {@link computeVectors} has added from the slots. */
export function undoVectors(batch: readonly BatchItem[], cells: SlotCells): void {
  for (const { slot, position, media } of batch) {
    if (media === undefined) continue
    cells.rollBack(slot)
    cells.truncate(slot, position)
  }
}

/** Computes an item up to its last vector; returns how many of its tokens were computed. */
async function computeItem(
  { slot: sequence, position, tokens }: BatchItem,
  media: NonNullable<BatchItem['media']>,
  cells: SlotCells,
  context: LogitsContext,
): Promise<number> {
  let at = 0
  const placeOf = (index: number) => cells.positionOf(sequence, position + index)
  for (const { start, length, vectors, shape } of media) {
    if (start > at) {
      const text = tokens.slice(at, start)
      await context.decodeBatch([{ sequence, position: placeOf(at), tokens: text, outputs: [] }])
    }
    if (vectors.length !== length * context.vectorSize) {
      const message = `expected vectors of ${context.vectorSize} numbers, got ${vectors.length / length}`
      throw new CllmError('backend_failed', message)
    }
    if (shape !== undefined) {
      const { length: all, positions = all, skipped = 0, columns } = shape
      const isGrid = columns !== undefined
      cells.place(sequence, { start: position + start - skipped, length: all, positions, isGrid })
    }
    const place = { sequence, position: placeOf(start), count: length }
    await context.decodeVectors({ ...place, vectors, shape })
    at = start + length
  }
  return at
}
