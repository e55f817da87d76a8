import { defineBatching } from '@cllm/core'
import { StepBuilder } from '../kit/step-builder.js'

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
