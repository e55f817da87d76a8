import type { BatchItem, OutputLogprobs, StepOutput } from '@cllm/core'
import type { TokenSampler } from './token-sampler.js'

/** What a pass leaves for each item of the batch. */
export interface PassResults {
  readonly outputs: (readonly StepOutput[])[]
  readonly scores: (readonly OutputLogprobs[])[]
}

/** Whether the item wants log probabilities. */
export const hasLogprobs = ({ logprobs, drawLogprobs, scores }: BatchItem): boolean =>
  logprobs !== undefined || drawLogprobs !== undefined || scores !== undefined

/**
 * Adds log probabilities to a pass's drawn tokens, and scores known ones, where they are wanted. One
 * after the other: all are read with the same samplers.
 */
export async function readLogprobs(
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
