import type { SchedulerEvent } from '@cllm/core'

/** Steps with fewer prompt tokens are ignored: their time is mostly the fixed cost of a step. */
const fewestTokens = 8
/** How fast an old record fades with each step of prompts. */
const fading = 1.02

/** The best prefill speed seen lately, as a lower bound for the time of a prompt. */
export class PrefillSpeed {
  #msPerToken = 0

  /** Milliseconds that this many tokens take at least; 0 before the first step with a prompt. */
  leastMs(tokens: number): number {
    return this.#msPerToken * tokens
  }

  /** Learns from a step. */
  observe(event: SchedulerEvent): void {
    if (event.type !== 'step' || event.prefillTokens < fewestTokens) return
    const seen = event.durationMs / event.prefillTokens
    this.#msPerToken = this.#msPerToken === 0 ? seen : Math.min(seen, this.#msPerToken * fading)
  }
}
