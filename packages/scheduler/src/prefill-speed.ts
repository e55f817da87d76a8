import type { SchedulerEvent } from '@cllm/core'

/** Fewer tokens say nothing of the speed: a step costs something for itself. */
const fewestTokens = 8
/** How fast an old record fades with each step of prompts. */
const fading = 1.02

/** The best speed of prompts seen lately: what nobody can hope to beat. */
export class PrefillSpeed {
  #msPerToken = 0

  /** Milliseconds that so many tokens take at least; 0 as long as nothing is known. */
  leastMs(tokens: number): number {
    return this.#msPerToken * tokens
  }

  observe(event: SchedulerEvent): void {
    if (event.type !== 'step' || event.prefillTokens < fewestTokens) return
    const seen = event.durationMs / event.prefillTokens
    this.#msPerToken = this.#msPerToken === 0 ? seen : Math.min(seen, this.#msPerToken * fading)
  }
}
