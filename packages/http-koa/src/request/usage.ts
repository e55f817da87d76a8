import type { Clock, GenerateRequest, LikelyToken, PromptProgress, TokenLogprobs } from '@cllm/core'
import type { EndEvent } from './generation.js'

/** An answer whose tokens are counted; reasoning tokens are only reported for chats. */
export interface CountedAnswer {
  readonly end: Pick<EndEvent, 'usage'>
  readonly reasoningTokens?: number
}

/**
 * Token counts in OpenAI's form.
 *
 * @param times - the number of consecutive answers that share one prompt, which counts once; default: all answers
 */
export function usageOf(answers: readonly CountedAnswer[], times = answers.length) {
  let [prompt, cached, generated, reasoning] = [0, 0, 0, 0]
  for (const [index, { end, reasoningTokens = 0 }] of answers.entries()) {
    generated += end.usage.generatedTokens
    reasoning += reasoningTokens
    if (index % times > 0) continue
    prompt += end.usage.promptTokens
    cached += end.usage.cachedTokens
  }
  return {
    prompt_tokens: prompt,
    completion_tokens: generated,
    total_tokens: prompt + generated,
    prompt_tokens_details: { cached_tokens: cached },
    ...(answers[0]?.reasoningTokens !== undefined && {
      completion_tokens_details: { reasoning_tokens: reasoning },
    }),
  }
}

/** Timings in llama-server's form. */
export const timingsOf = ({ usage, timings }: Pick<EndEvent, 'usage' | 'timings'>) => ({
  ...figures(
    [usage.promptTokens, usage.cachedTokens, timings.prefillMs],
    [usage.generatedTokens, timings.decodeMs],
  ),
  ...(timings.draftTokens !== undefined && {
    draft_n: timings.draftTokens,
    draft_n_accepted: timings.acceptedTokens ?? 0,
  }),
})

/** The timings of the prompt and of the generated tokens. */
function figures(
  [promptTokens, cached, promptMs]: readonly [tokens: number, cached: number, ms: number],
  [predicted, predictedMs]: readonly [tokens: number, ms: number],
) {
  const prompt = promptTokens - cached
  // the first token is sampled with the prompt's last token
  const steps = predicted - 1
  return {
    cache_n: cached,
    prompt_n: prompt,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, prompt),
    prompt_per_second: ratio(prompt * 1000, promptMs),
    predicted_n: predicted,
    predicted_ms: predictedMs,
    predicted_per_token_ms: ratio(predictedMs, steps),
    predicted_per_second: ratio(steps * 1000, predictedMs),
  }
}

/** A ratio, 0 for a division by 0, as JSON has no infinity. */
export const ratio = (value: number, by: number): number => (by > 0 ? value / by : 0)

/** The sum of numbers. */
export function sum(numbers: readonly number[]): number {
  let total = 0
  for (const number of numbers) total += number
  return total
}

/** The progress of a streamed answer, as llama-server's `return_progress` and `timings_per_token` show it. */
export class StreamTimings {
  readonly #started: number
  #first: number | undefined
  #count = 0
  /** The cached tokens of the prompt, from its progress. */
  #cached = 0

  constructor(
    private readonly clock: Clock,
    private readonly promptTokens: number,
    private readonly showsProgress = false,
  ) {
    this.#started = clock.now()
  }

  /** The progress of the prompt; undefined if the client did not ask for it. */
  progress({ promptTokens: total, cachedTokens: cache, processedTokens }: PromptProgress) {
    this.#cached = cache
    if (!this.showsProgress) return undefined
    const time_ms = Math.round(this.clock.now() - this.#started)
    return { total, cache, processed: processedTokens, time_ms }
  }

  /** The timings while the prompt is computed. */
  onPrompt({ processedTokens: processed, cachedTokens: cached }: PromptProgress): object {
    const ms = processed === cached ? 0 : this.clock.now() - this.#started
    return figures([processed, cached, ms], [0, 0])
  }

  /** Counts a token, and returns the timings up to it: by this process's clock. */
  onToken(): object {
    const now = this.clock.now()
    this.#first ??= now
    this.#count++
    const promptMs = this.#first - this.#started
    return figures([this.promptTokens, this.#cached, promptMs], [this.#count, now - this.#first])
  }
}

/** The log probability of a single token. */
export const logprobOf = ({ text: token, bytes, logprob }: LikelyToken) => ({
  token,
  logprob,
  bytes,
})

/** The log probability of a token in the form of the Responses API. */
export const responseLogprob = (token: TokenLogprobs): object => ({
  ...logprobOf(token),
  top_logprobs: token.top.map(logprobOf),
})

/** The log probability of a token, by the model or by the draw, in llama-server's form. */
export function likelihoodOf(token: TokenLogprobs, { drawLogprobs }: GenerateRequest): object {
  const isDrawn = drawLogprobs !== undefined
  const one = ({ token: id, text, bytes, logprob }: LikelyToken) => ({
    id,
    token: text,
    bytes,
    ...(isDrawn ? { prob: Math.exp(logprob) } : { logprob }),
  })
  return { ...one(token), [isDrawn ? 'top_probs' : 'top_logprobs']: token.top.map(one) }
}
