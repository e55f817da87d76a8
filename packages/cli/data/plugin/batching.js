// @ts-check
import { defineBatching, definePlugin } from '@cllm/core'
import { StepBuilder } from '@cllm/scheduler'

export const myPlugin = defineBatching({
  name: 'my-plugin',
  doc: 'A token for every request that decodes, and at most one prompt more.',
  create: () => ({
    plan(state, next) {
      const step = new StepBuilder(state)
      // A request that decodes has one token to compute; another one is in the middle of its prompt.
      const running = state.running.toSorted((a, b) => a.remainingTokens - b.remainingTokens)
      for (const request of running) step.run(request, request.remainingTokens)
      const isPrefilling = running.some((request) => request.remainingTokens > 1)
      if (isPrefilling || !step.canAdmit) return step.build()
      for (const request of next) {
        step.admit(request, request.remainingTokens)
        break
      }
      return step.build()
    },
  }),
})

export default definePlugin({
  name: 'my-plugin',
  apiVersion: 1,
  register: (host) => host.registerBatching(myPlugin),
})
