import { type BackendLimits, type BatchItem, CllmError, type TokenId } from '@cllm/core'
import type { SlotCells } from './slot-cells.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** A part of a batch that llama.cpp gets at once, in the order that it needs. */
export interface StepPass {
  /** Indexes of the caller's items, by rising slot. */
  readonly order: readonly number[]
  /** The number of tokens. */
  readonly tokens: number
  /** Whether each item is a single token. */
  readonly isDecode: boolean
}

/** The limits of a step. */
type StepLimits = Pick<BackendLimits, 'batchSize' | 'contextSize' | 'outputs'>

/** The positions of an item whose logits are needed, in rising order: for sampling or for scoring. */
export function wantedPositions({ outputs, scores }: BatchItem): readonly number[] {
  if (scores === undefined) return outputs
  const scored = scores.tokens.map((_, index) => scores.position + index)
  return [...new Set([...scored, ...outputs])].sort((a, b) => a - b)
}

/**
 * Checks a batch, so that llama.cpp cannot fail on it or end the process, and orders it.
 *
 * Decodes and prompt chunks are separate passes. Given together, llama.cpp would make two passes as well, the first
 * with one token of each sequence: a chunk of 64 would become one of 63, and flash attention on the CPU, which
 * computes queries in tiles of 64, would be three times slower. With a unified KV cache they are one pass, and so are
 * sequences with equally many tokens. Drafts are short, and stay with the decodes.
 * @param kvUnified - whether all sequences share their cells
 * @throws CllmError `invalid_token` or `backend_failed`
 */
export function orderBatch(
  batch: readonly BatchItem[],
  cells: SlotCells,
  vocabulary: Vocabulary,
  limits: StepLimits,
  kvUnified: boolean,
): readonly StepPass[] {
  let tokens = 0
  let outputs = 0
  let isOnePass = true
  const order: number[] = []
  const mostOutputs = limits.outputs ?? limits.batchSize
  for (const item of batch) {
    checkItem(item, cells, vocabulary, limits)
    tokens += item.tokens.length
    outputs += item.outputs.length
    isOnePass &&= kvUnified || item.tokens.length === batch[0]!.tokens.length
    order.push(order.length)
  }
  if (outputs > mostOutputs) {
    throw failed(`expected at most ${mostOutputs} outputs in a step, got ${outputs}`)
  }
  if (tokens > limits.batchSize) {
    throw failed(`expected at most ${limits.batchSize} tokens in a step, got ${tokens}`)
  }
  const { freeTokens = Infinity } = cells
  if (tokens > freeTokens) {
    throw failed(`expected at most ${freeTokens} tokens, since no more cells are free: ${tokens}`)
  }
  order.sort((a, b) => batch[a]!.slot - batch[b]!.slot)
  const decodes: number[] = []
  const prompts: number[] = []
  let last = -1
  for (const index of order) {
    const { slot, tokens, drafts = 0 } = batch[index]!
    if (slot === last) throw failed(`slot ${slot} is twice in a step`)
    last = slot
    if (isOnePass || tokens.length === 1 || drafts > 0) decodes.push(index)
    else prompts.push(index)
  }
  const passes: Pass[] = []
  addPasses(passes, batch, decodes, mostOutputs)
  if (prompts.length > 0) addPasses(passes, batch, prompts, mostOutputs)
  return passes
}

type Pass = { -readonly [Key in keyof StepPass]: StepPass[Key] } & { readonly order: number[] }

/** Adds passes, split so that each has at most `most` logits. */
function addPasses(
  passes: Pass[],
  batch: readonly BatchItem[],
  order: readonly number[],
  most: number,
): void {
  let wanted = Infinity
  for (const index of order) {
    const item = batch[index]!
    const { length: count } = wantedPositions(item)
    if (count > most) throw failed(`a pass gives out at most ${most} logits, ${count} are wanted`)
    if (wanted + count > most) {
      passes.push({ order: [], tokens: 0, isDecode: true })
      wanted = 0
    }
    wanted += count
    const pass = passes.at(-1)!
    pass.order.push(index)
    pass.tokens += item.tokens.length
    pass.isDecode &&= item.tokens.length === 1
  }
}

function checkItem(
  { slot, position, tokens, outputs, drafts = 0, sampler, scores }: BatchItem,
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
  if (scores !== undefined) {
    const last = scores.position + scores.tokens.length
    if (scores.position < position || last > end || scores.tokens.length === 0) {
      throw failed(`scores of slot ${slot} must lie from ${position} to ${end - 1}`)
    }
    for (const token of scores.tokens) vocabulary.check(token)
  }
  // Behind the drafts there may be tokens that only fill the batch up.
  if (drafts > 0 && (outputs.length !== drafts + 1 || outputs.at(-1) !== outputs[0]! + drafts)) {
    throw failed(`slot ${slot} wants outputs before and at each of its ${drafts} drafts`)
  }
  if ((outputs.length > 0 || scores !== undefined) && sampler === undefined) {
    throw failed(`slot ${slot} wants outputs and has no sampler`)
  }
}

const failed = (message: string): CllmError => new CllmError('backend_failed', message)

/**
 * Whether the `nth` sampled token, from 1, differs from the draft token in its place, so that everything computed
 * behind it is rejected.
 */
export function isRefuted(
  { position, tokens, outputs, drafts = 0 }: BatchItem,
  nth: number,
  token: TokenId,
): boolean {
  return drafts > 0 && tokens[outputs[0]! - position + nth] !== token
}
