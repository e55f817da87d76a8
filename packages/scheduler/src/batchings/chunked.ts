import { defineBatching } from '@cllm/core'
import { z } from 'zod'
import { StepBuilder } from '../kit/step-builder.js'

/**
 * Decode first: every decoding sequence gets its token, and what is left of a fixed budget goes to
 * prompts in chunks, in their order. After Sarathi-Serve (OSDI '24, arXiv 2403.02310).
 */
export const chunked = defineBatching({
  name: 'chunked',
  doc: 'A token for every request that decodes, then prompts in chunks, within a fixed budget (Sarathi-Serve, OSDI ’24). For an even time between tokens, where the machine is known.',
  options: z.object({
    tokenBudget: z.int().min(1).default(256).describe('Tokens of a step, at most.'),
  }),
  create: ({ tokenBudget }) => ({
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
  }),
})
