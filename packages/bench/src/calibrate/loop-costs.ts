import { performance } from 'node:perf_hooks'
import type { EngineClient } from '@cllm/core'
import type { MachineModel, PassCosts } from '@cllm/simulation'
import { median } from 'simple-statistics'
import { promptsOf, workSampling } from './token-work.js'

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
