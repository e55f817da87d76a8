import { performance } from 'node:perf_hooks'
import { type EngineClient, nextNumber } from '@cllm/core'
import type { MachineModel, PassCosts } from '@cllm/simulation'
import { median } from 'simple-statistics'

/** The same work for every stage: a number of sequences, each with a prompt and tokens to draw. */
export interface TokenWork {
  readonly sequences: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/** Prompts that share no prefix with prompts of another round. */
export function promptsOf(work: TokenWork, vocabularySize: number, round: number): number[][] {
  let state = Math.imul(round + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: work.sequences }, () =>
    Array.from({ length: work.promptTokens }, () => {
      state = nextNumber(state)
      // Special tokens are mostly at the ends of a vocabulary.
      return Math.floor(vocabularySize / 8) + ((state >>> 8) % Math.ceil(vocabularySize / 2))
    }),
  )
}

/** How every stage samples, as far as it does. */
export const workSampling = { temperature: 0.7, topK: 40, topP: 0.9, seed: 1 } as const

const promptTokens = 8
const outputTokens = 40

/**
 * The time that the engine, its process and its client add to a step: the ITL of one stream, and of
 * one stream per slot, minus the machine's costs.
 */
export async function loopCosts(
  client: EngineClient,
  { stepMs }: MachineModel,
): Promise<PassCosts['loop']> {
  const { model, limits } = await client.info()
  const beyond = async (sequences: number): Promise<number> => {
    const gaps: number[] = []
    const work = { sequences, promptTokens, outputTokens }
    const stream = async (tokens: readonly number[]) => {
      const sampling = { ...workSampling, ignoreEos: true }
      const request = { prompt: { tokens }, maxTokens: outputTokens, sampling, cache: false }
      let last: number | undefined
      for await (const { type } of client.submit(request)) {
        if (type !== 'token') continue
        const now = performance.now()
        if (last !== undefined) gaps.push(now - last)
        last = now
      }
    }
    await Promise.all(promptsOf(work, model.vocabularySize, sequences).map(stream))
    const context = promptTokens + outputTokens / 2
    const shares = Array.from({ length: sequences }, (_, slot) => ({ slot, tokens: 1, context }))
    return Math.max(0, median(gaps) - stepMs(shares))
  }
  const slots = Math.min(limits.slots, limits.batchSize)
  const one = await beyond(1)
  if (slots === 1) return { base: one, each: 0 }
  const each = Math.max(0, ((await beyond(slots)) - one) / (slots - 1))
  return { base: Math.max(0, one - each), each }
}
