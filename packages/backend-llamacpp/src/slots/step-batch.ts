import { type BatchItem, CllmError } from '@cllm/core'
import type { SlotCells } from './slot-cells.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** A part of a batch that llama.cpp gets as one, in the order in which it wants it. */
export interface StepPass {
  /** Indexes of the caller's items by rising slot. */
  readonly order: readonly number[]
  /** Tokens in all. */
  readonly tokens: number
  /** Whether each item is a single token. */
  readonly isDecode: boolean
}

/** What a step must keep to. */
export interface StepLimits {
  readonly batchSize: number
  readonly contextSize: number
}

/** How llama.cpp lays the cells of its sequences out. */
export interface StepLayout {
  /** All sequences share their cells, so prompts and decodes are one pass over the weights. */
  readonly kvUnified: boolean
}

/**
 * Checks a batch, so that llama.cpp cannot fail on it or end the process, and orders it.
 *
 * Decodes and prompt chunks are passes of their own. Together llama.cpp would make two passes of them
 * as well, the first with one token of each sequence: a chunk of 64 would so become one of 63, and
 * flash attention on the CPU, which computes queries in tiles of 64, would be three times slower. With
 * a unified KV cache they are one pass.
 * @throws CllmError `invalid_token` or `backend_failed`
 */
export function orderBatch(
  batch: readonly BatchItem[],
  cells: SlotCells,
  vocabulary: Vocabulary,
  limits: StepLimits,
  { kvUnified }: StepLayout,
): readonly StepPass[] {
  let tokens = 0
  for (const item of batch) {
    checkItem(item, cells, vocabulary, limits)
    tokens += item.tokens.length
  }
  if (tokens > limits.batchSize) {
    throw failed(`expected at most ${limits.batchSize} tokens in a step, got ${tokens}`)
  }
  const slotOf = (index: number) => batch[index]?.slot ?? 0
  const order = batch.map((_, index) => index).sort((a, b) => slotOf(a) - slotOf(b))
  const twice = order.find((item, index) => index > 0 && slotOf(item) === slotOf(order[index - 1]!))
  if (twice !== undefined) throw failed(`slot ${slotOf(twice)} is twice in a step`)
  const isDecode = (index: number) => batch[index]?.tokens.length === 1
  if (kvUnified) return [{ order, tokens, isDecode: order.every(isDecode) }]
  const decodes = order.filter(isDecode)
  const prompts = order.filter((index) => !isDecode(index))
  return [
    { order: decodes, tokens: decodes.length, isDecode: true },
    { order: prompts, tokens: tokens - decodes.length, isDecode: false },
  ].filter((pass) => pass.order.length > 0)
}

function checkItem(
  { slot, position, tokens, outputs, sampler }: BatchItem,
  cells: SlotCells,
  vocabulary: Vocabulary,
  { contextSize }: StepLimits,
): void {
  const length = cells.length(slot)
  if (position !== length) {
    throw failed(`slot ${slot} holds ${length} tokens, so a step goes on there, not at ${position}`)
  }
  if (tokens.length === 0) throw failed(`slot ${slot} is in a step without tokens`)
  const end = position + tokens.length
  if (end > contextSize) {
    throw failed(`slot ${slot} holds at most ${contextSize} tokens, got ${end}`)
  }
  for (const token of tokens) vocabulary.check(token)
  let before = position - 1
  for (const output of outputs) {
    if (!Number.isInteger(output) || output <= before || output >= end) {
      throw failed(
        `outputs of slot ${slot} must rise from ${position} to ${end - 1}: ${outputs.join()}`,
      )
    }
    before = output
  }
  if (outputs.length > 0 && sampler === undefined) {
    throw failed(`slot ${slot} wants outputs and has no sampler`)
  }
}

function failed(message: string): CllmError {
  return new CllmError('backend_failed', message)
}
