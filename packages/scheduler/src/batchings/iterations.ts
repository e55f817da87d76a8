import { defineBatching } from '@cllm/core'
import { StepBuilder } from '../kit/step-builder.js'
import { z } from 'zod'

/**
 * Prefill first: as long as there are prompts, a step computes whole prompts, as many as fit into
 * `limits.batchSize`, and other requests wait; without prompts it decodes. Best for throughput, worst
 * for the time between tokens. After Orca (OSDI '22) as first built in vLLM.
 */
export const continuous = defineBatching({
  name: 'continuous',
  doc: 'Whole prompts as long as there are any, else a token for every request (Orca, OSDI ’22). For throughput: streams stall while prompts come.',
  create: () => ({
    plan(state, next) {
      const step = new StepBuilder(state)
      const prefilling = state.running.filter((request) => request.remainingTokens > 1)
      for (const request of prefilling) step.run(request, request.remainingTokens)
      if (step.canAdmit) {
        for (const request of next) {
          const whole = request.remainingTokens
          if (whole > step.tokensLeft && step.tokensLeft < state.limits.batchSize) break
          step.admit(request, whole)
          if (!step.canAdmit) break
        }
      }
      const prompts = step.build()
      if (prompts.run.length > 0) return prompts
      for (const request of state.running) step.run(request, 1)
      return step.build()
    },
  }),
})

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
