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
