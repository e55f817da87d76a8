import {
  type BatchItem,
  CllmError,
  type Clock,
  defined,
  type OutputLogprobs,
  type StepOutput,
  type TokenId,
} from '@cllm/core'
import { type PreparedDraw, type SamplerFactory, TokenSampler } from './token-sampler.js'
import { isRefuted } from '../slots/step-batch.js'

/** The results of a pass for each item of the batch. */
interface PassResults {
  readonly outputs: (readonly StepOutput[])[]
  readonly scores: (readonly OutputLogprobs[])[]
  readonly errors: Map<number, CllmError>
}

/** How long before a pass ends the drawing threads are woken: timers are late by up to a millisecond. */
const wakeMs = 2

/**
 * Wakes the drawing threads shortly before a pass ends; returns a function that cancels it.
 * @param endsAt - the predicted time; NaN: unknown
 */
export function announceDraws(
  announce: () => void,
  clock: Pick<Clock, 'at'>,
  endsAt: number,
): (() => void) | undefined {
  if (Number.isNaN(endsAt)) return undefined
  return clock.at(endsAt - wakeMs, announce)
}

/** Prepares the draw of an item's `nth` output; for the first one this runs while the pass is computed. */
export function prepareDraw(item: BatchItem, nth = 0): void {
  const position = item.outputs[nth]
  if (position === undefined) return
  const { discarded = 0 } = item
  samplerOf(item).prepare(position + discarded, item.position + discarded, item.tokens)
}

/**
 * Draws the tokens of a pass's items, each with its own sampler, and reads the requested log probabilities. A draw that
 * fails is an error of its item.
 *
 * @param order - the indexes of the pass's items, in the order of their tokens in it
 */
export async function drawPass(
  batch: readonly BatchItem[],
  order: readonly number[],
  results: PassResults,
  { drawAhead }: Pick<SamplerFactory, 'drawAhead'>,
): Promise<void> {
  drawAhead?.(firstDraws(batch, order))
  const drawing: Promise<void>[] = []
  let wantsLogprobs = false
  let first = 0
  for (const index of order) {
    const item = batch[index]!
    const { position, outputs, drawLogprobs } = item
    wantsLogprobs ||= (drawLogprobs ?? item.logprobs ?? item.scores) !== undefined
    const [wanted] = outputs
    if (wanted !== undefined) {
      try {
        const token = samplerOf(item).draw(first + wanted - position, drawLogprobs)
        if (outputs.length === 1 && typeof token === 'number') {
          results.outputs[index] = [{ position: wanted, token: checked(token, item) }]
        } else drawing.push(drawSeveral(item, index, first, token, results))
      } catch (error) {
        results.errors.set(index, CllmError.from(error, 'backend_failed'))
      }
    }
    first += item.tokens.length
  }
  if (drawing.length > 0) await Promise.all(drawing)
  if (wantsLogprobs) await readLogprobs(batch, order, results)
}

/** The first draw of each item, except of items that want the draw's likeliest tokens: these draw one by one. */
function firstDraws(batch: readonly BatchItem[], order: readonly number[]): PreparedDraw[] {
  const draws: PreparedDraw[] = []
  let first = 0
  for (const at of order) {
    const item = batch[at]!
    const [position] = item.outputs
    if (position !== undefined && item.drawLogprobs === undefined) {
      draws.push({ sampler: samplerOf(item), index: first + position - item.position })
    }
    first += item.tokens.length
  }
  return draws
}

/**
 * Draws an item's tokens one after the other, until a draft is rejected.
 * @param first - the index in the batch of the item's first token
 * @param token - the result of the first draw
 */
async function drawSeveral(
  item: BatchItem,
  index: number,
  first: number,
  token: TokenId | Promise<TokenId>,
  { outputs, errors }: PassResults,
): Promise<void> {
  const drawn: StepOutput[] = []
  try {
    for (const [nth, position] of item.outputs.entries()) {
      if (nth > 0) {
        prepareDraw(item, nth)
        token = samplerOf(item).draw(first + position - item.position, item.drawLogprobs)
      }
      drawn.push({ position, token: checked(await token, item) })
      if (isRefuted(item, drawn.length, await token)) break
    }
    outputs[index] = drawn
  } catch (error) {
    // Tokens that were drawn before are kept, as when a draft is rejected; if the error persists, the next step fails.
    if (item.drafts !== undefined && drawn.length > 0) outputs[index] = drawn
    else errors.set(index, CllmError.from(error, 'backend_failed'))
  }
}

function checked(token: TokenId, { slot }: BatchItem): TokenId {
  if (token >= 0) return token
  throw new CllmError('backend_failed', `no token can be drawn in slot ${slot}`)
}

function samplerOf({ slot, sampler }: BatchItem): TokenSampler {
  if (sampler instanceof TokenSampler) return sampler
  const message = `the sampler of slot ${slot} is not one of this backend's`
  throw new CllmError('backend_failed', message)
}

/**
 * Adds the requested log probabilities to a pass's drawn tokens and to given tokens (scores). Reads them one after the
 * other, as all share a workspace.
 */
async function readLogprobs(
  batch: readonly BatchItem[],
  order: readonly number[],
  { outputs, scores }: PassResults,
): Promise<void> {
  let first = 0
  for (const index of order) {
    const item = batch[index]!
    const { position, tokens, logprobs: count, drawLogprobs, scores: scored } = item
    if ((drawLogprobs ?? count) !== undefined) {
      const sampler = samplerOf(item)
      const read: StepOutput[] = []
      for (const output of outputs[index]!) {
        const at = first + output.position - position
        const isOfDraw = drawLogprobs !== undefined
        const own = isOfDraw ? sampler.drawn?.(at) : sampler.logprobs(at, output.token, count!)
        read.push({ ...output, ...defined({ logprobs: await own }) })
      }
      outputs[index] = read
    }
    if (scored !== undefined) {
      const read: OutputLogprobs[] = []
      for (const [nth, token] of scored.tokens.entries()) {
        const at = first + scored.position + nth - position
        read.push(await samplerOf(item).logprobs(at, token, scored.top))
      }
      scores[index] = read
    }
    first += tokens.length
  }
}
