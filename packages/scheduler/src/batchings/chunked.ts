import type { Batching } from '../batching.js'
import { StepBuilder } from '../step-builder.js'

/** Options of {@link chunked}. */
export interface ChunkedOptions {
  /** Tokens of a step, at most. Default 256. */
  readonly tokenBudget?: number
}

/**
 * Decode first: every decoding sequence gets its token, and what is left of a fixed budget goes to
 * prompts in chunks, in their order. After Sarathi-Serve (OSDI '24, arXiv 2403.02310).
 */
export function chunked({ tokenBudget = 256 }: ChunkedOptions = {}): Batching {
  return {
    name: 'chunked',
    options: { tokenBudget },
    plan(state, next) {
      const step = new StepBuilder(state, Math.max(tokenBudget, state.running.length + 1))
      for (const request of state.running) {
        if (request.remainingTokens === 1) step.run(request, 1)
      }
      for (const request of state.running) {
        if (request.remainingTokens > 1) step.run(request, request.remainingTokens)
      }
      if (!step.canAdmit) return step.build()
      for (const request of next) {
        step.admit(request, request.remainingTokens)
        if (!step.canAdmit) break
      }
      return step.build()
    },
  }
}
