import type { Clock, PromptProgress, Timings, Usage } from '@cllm/core'
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

/** Progress in llama-server's form; `timeMs` from the request's start. */
export const promptProgress = (event: PromptProgress, timeMs: number) => ({
  total: event.promptTokens,
  cache: event.cachedTokens,
  processed: event.processedTokens,
  time_ms: Math.round(timeMs),
})

/** How a streamed answer goes, token by token, as llama-server's `timings_per_token` shows it. */
export class StreamTimings {
  readonly #started: number
  #first: number | undefined
  #count = 0

  constructor(
    private readonly clock: Clock,
    private readonly promptTokens: number,
  ) {
    this.#started = clock.now()
  }

  /** Milliseconds since the start. */
  get elapsedMs(): number {
    return this.clock.now() - this.#started
  }

  /** The timings while the prompt is computed. */
  onPrompt(processed: number, cached: number): object {
    const count = processed - cached
    const ms = count === 0 ? 0 : this.elapsedMs
    return {
      cache_n: cached,
      prompt_n: count,
      prompt_ms: ms,
      prompt_per_token_ms: count > 0 ? ms / count : 0,
      prompt_per_second: ms > 0 ? (count * 1000) / ms : 0,
      predicted_n: 0,
      predicted_ms: 0,
      predicted_per_token_ms: 0,
      predicted_per_second: 0,
    }
  }

  /** Counts a token, and returns the timings up to it: by this process's clock. */
  onToken(): object {
    const now = this.clock.now()
    this.#first ??= now
    this.#count++
    const promptMs = this.#first - this.#started
    const predictedMs = now - this.#first
    const steps = this.#count - 1
    return {
      cache_n: 0,
      prompt_n: this.promptTokens,
      prompt_ms: promptMs,
      prompt_per_token_ms: promptMs / this.promptTokens,
      prompt_per_second: promptMs > 0 ? (this.promptTokens * 1000) / promptMs : 0,
      predicted_n: this.#count,
      predicted_ms: predictedMs,
      predicted_per_token_ms: steps > 0 ? predictedMs / steps : 0,
      predicted_per_second: predictedMs > 0 ? (steps * 1000) / predictedMs : 0,
    }
  }
}
