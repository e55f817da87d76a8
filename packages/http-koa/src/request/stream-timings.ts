import type { Clock } from '@cllm/core'

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
