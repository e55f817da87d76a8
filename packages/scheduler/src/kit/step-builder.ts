import type { SchedulerState, SequenceView, Step } from '@cllm/core'

/** Collects a step within its token budget, the slots and `limits.batchSize`. */
export class StepBuilder {
  readonly #admit: string[] = []
  readonly #run: { id: string; tokens: number }[] = []
  #tokens: number
  #slots: number

  /** @param budget - Tokens of the step, at most; cut to `limits.batchSize`. */
  constructor(state: SchedulerState, budget = Infinity) {
    this.#tokens = Math.min(budget, state.limits.batchSize)
    // A sequence beyond the batch size could not decode in the same step as the others.
    this.#slots = Math.min(state.freeSlots, state.limits.batchSize - state.running.length)
  }

  /** Tokens that still fit. */
  get tokensLeft(): number {
    return this.#tokens
  }

  /** Whether another waiting request can be admitted and get a token. */
  get canAdmit(): boolean {
    return this.#slots > 0 && this.#tokens > 0
  }

  /** Computes up to `tokens` of a running request and returns how many fit. */
  run(request: SequenceView, tokens: number): number {
    const fitting = Math.min(tokens, this.#tokens)
    if (fitting <= 0) return 0
    this.#run.push({ id: request.id, tokens: fitting })
    this.#tokens -= fitting
    return fitting
  }

  /** Gives a waiting request a slot and computes up to `tokens` of it. Needs `canAdmit`. */
  admit(request: SequenceView, tokens: number): number {
    this.#admit.push(request.id)
    this.#slots -= 1
    return this.run(request, tokens)
  }

  /** The step that was put together. */
  build(): Step {
    return { admit: this.#admit, run: this.#run }
  }
}
