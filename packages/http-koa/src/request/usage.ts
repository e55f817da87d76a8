import type { Timings, Usage } from '@cllm/core'
import type { EndEvent } from './generation.js'

/**
 * Token counts in OpenAI's form. With several answers, the prompt counts once.
 *
 * @param reasoningTokens - those of all answers to a chat; other answers say nothing of it
 */
export function usageOf(ends: readonly Pick<EndEvent, 'usage'>[], reasoningTokens?: number) {
  const [first] = ends
  const { promptTokens = 0, cachedTokens = 0 }: Partial<Usage> = first?.usage ?? {}
  const generated = sum(ends.map(({ usage }) => usage.generatedTokens))
  return {
    prompt_tokens: promptTokens,
    completion_tokens: generated,
    total_tokens: promptTokens + generated,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    ...(reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoningTokens },
    }),
  }
}

/** Timings in llama-server's form. */
export function timingsOf({
  usage,
  timings,
}: {
  readonly usage: Usage
  readonly timings: Timings
}) {
  const prompt = usage.promptTokens - usage.cachedTokens
  const predicted = usage.generatedTokens
  return {
    cache_n: usage.cachedTokens,
    prompt_n: prompt,
    prompt_ms: timings.prefillMs,
    prompt_per_token_ms: ratio(timings.prefillMs, prompt),
    prompt_per_second: ratio(prompt * 1000, timings.prefillMs),
    predicted_n: predicted,
    predicted_ms: timings.decodeMs,
    // the first token comes with the prompt's last
    predicted_per_token_ms: ratio(timings.decodeMs, predicted - 1),
    predicted_per_second: ratio((predicted - 1) * 1000, timings.decodeMs),
    ...(timings.draftTokens !== undefined && {
      draft_n: timings.draftTokens,
      draft_n_accepted: timings.acceptedTokens ?? 0,
    }),
  }
}

/** JSON has no infinity. */
const ratio = (value: number, by: number): number => (by > 0 ? value / by : 0)

/** The sum of numbers. */
export const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, number) => total + number, 0)
