import {
  type BatchItem,
  CllmError,
  type OutputLogprobs,
  type StepOutput,
  type TokenId,
} from '@cllm/core'
import type { PreparedDraw, SamplerFactory, TokenSampler } from './token-sampler.js'
import { isRefuted, outputOf } from '../slots/step-batch.js'

/** Draws what the items of a forward pass want, each with its own sampler. */
export class PassDraws {
  readonly #samplers: Pick<SamplerFactory, 'made' | 'drawAhead'>

  constructor(samplers: Pick<SamplerFactory, 'made' | 'drawAhead'>) {
    this.#samplers = samplers
  }

  /** Prepares the draw of an item's `nth` output, the first one while the threads compute. */
  prepare(item: BatchItem, nth = 0): void {
    const position = item.outputs[nth]
    if (position === undefined) return
    const { discarded = 0 } = item
    this.#samplerOf(item).prepare(position + discarded, item.position + discarded, item.tokens)
  }

  /**
   * Draws, and reads the log probabilities that are wanted.
   *
   * @param order - the indexes of the pass's items, as their tokens lie in it
   * @throws what a draw throws first, when no other is under way: the next step must not begin beside
   * one, since it would draw from the new step's logits
   */
  async sample(
    batch: readonly BatchItem[],
    order: readonly number[],
    results: PassResults,
  ): Promise<void> {
    const { outputs } = results
    const drawing: Promise<void>[] = []
    this.#samplers.drawAhead?.(this.#firstDraws(batch, order))
    try {
      let first = 0
      for (const index of order) {
        const item = batch[index]!
        if (item.outputs.length > 0) {
          const drawn = this.#draw(item, first)
          if (drawn instanceof Promise) {
            drawing.push(drawn.then((drawn) => void (outputs[index] = drawn)))
          } else outputs[index] = drawn
        }
        first += item.tokens.length
      }
    } finally {
      if (drawing.length > 0) await Promise.allSettled(drawing)
    }
    await Promise.all(drawing)
    if (order.some((index) => hasLogprobs(batch[index]!))) {
      await readLogprobs(batch, order, results, (item) => this.#samplerOf(item))
    }
  }

  /** The first draw of each item; where the likeliest tokens are wanted, each draw lists its own. */
  #firstDraws(batch: readonly BatchItem[], order: readonly number[]): readonly PreparedDraw[] {
    const draws: PreparedDraw[] = []
    let first = 0
    for (const at of order) {
      const item = batch[at]!
      const position = item.outputs[0]
      if (position !== undefined && item.drawLogprobs === undefined) {
        draws.push({ sampler: this.#samplerOf(item), index: first + position - item.position })
      }
      first += item.tokens.length
    }
    return draws
  }

  /** Draws for one item whose first token has the batch's index `first`. */
  #draw(item: BatchItem, first: number): readonly StepOutput[] | Promise<readonly StepOutput[]> {
    const sampler = this.#samplerOf(item)
    const position = item.outputs[0]!
    const token = sampler.draw(first + position - item.position, item.drawLogprobs)
    if (item.outputs.length > 1 || typeof token !== 'number') {
      return this.#drawSeveral(item, first, token)
    }
    return [outputOf(item, position, token)]
  }

  async #drawSeveral(
    item: BatchItem,
    first: number,
    token: TokenId | Promise<TokenId>,
  ): Promise<readonly StepOutput[]> {
    const sampler = this.#samplerOf(item)
    const drawn: StepOutput[] = []
    for (const [nth, position] of item.outputs.entries()) {
      if (nth > 0) {
        this.prepare(item, nth)
        token = sampler.draw(first + position - item.position, item.drawLogprobs)
      }
      drawn.push(outputOf(item, position, await token))
      if (isRefuted(item, drawn.length, await token)) break
    }
    return drawn
  }

  #samplerOf({ slot, sampler }: BatchItem): TokenSampler {
    if (this.#samplers.made(sampler)) return sampler
    const message = `the sampler of slot ${slot} is not one of this backend's`
    throw new CllmError('backend_failed', message)
  }
}

/** What a pass leaves for each item of the batch. */
export interface PassResults {
  readonly outputs: (readonly StepOutput[])[]
  readonly scores: (readonly OutputLogprobs[])[]
}

/** Whether the item wants log probabilities. */
const hasLogprobs = ({ logprobs, drawLogprobs, scores }: BatchItem): boolean =>
  logprobs !== undefined || drawLogprobs !== undefined || scores !== undefined

/**
 * Adds log probabilities to a pass's drawn tokens, and scores known ones, where they are wanted. One
 * after the other: all are read with the same samplers.
 */
async function readLogprobs(
  batch: readonly BatchItem[],
  order: readonly number[],
  { outputs, scores }: PassResults,
  samplerOf: (item: BatchItem) => TokenSampler,
): Promise<void> {
  let first = 0
  for (const index of order) {
    const item = batch[index]!
    const { position, tokens, logprobs: count, drawLogprobs, scores: scored } = item
    if (drawLogprobs !== undefined) {
      outputs[index] = outputs[index]!.map((output) => {
        const logprobs = samplerOf(item).drawn?.(first + output.position - position)
        return logprobs === undefined ? output : { ...output, logprobs }
      })
    } else if (count !== undefined) {
      const read: StepOutput[] = []
      for (const output of outputs[index]!) {
        const at = first + output.position - position
        read.push({ ...output, logprobs: await samplerOf(item).logprobs(at, output.token, count) })
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
