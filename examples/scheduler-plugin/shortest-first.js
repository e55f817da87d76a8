// @ts-check
import { definePlugin, definePolicy } from '@cllm/core'
import { firstOf, StepBuilder, WaitingHeap } from '@cllm/scheduler'
import { z } from 'zod'

/** The least left to compute goes first, running requests included; by waiting, none starves. */
export const shortestFirst = definePolicy({
  name: 'shortest-first',
  doc: 'The least left to compute first, running requests included.',
  options: z.object({
    budget: z.int().min(1).default(256).describe('Tokens of a step, at most.'),
    aging: z
      .number()
      .positive()
      .default(100)
      .describe('Tokens that a second of waiting outweighs.'),
  }),
  create({ budget, aging }) {
    /** @type {(request: import('@cllm/core').SequenceView) => number} */
    const rank = (request) => request.remainingTokens + (request.arrival / 1000) * aging
    const heap = new WaitingHeap(rank)
    return {
      name: 'shortest-first',
      options: { budget, aging },
      plan(state) {
        const step = new StepBuilder(state, budget)
        const next = firstOf(state, heap.next(state), Infinity)
        const ranked = [...state.running, ...next].sort((a, b) => rank(a) - rank(b))
        for (const request of ranked) {
          if (request.stepGroup !== ranked[0]?.stepGroup) continue
          if (!next.includes(request)) step.run(request, request.remainingTokens)
          else if (step.canAdmit) step.admit(request, request.remainingTokens)
        }
        return { preempt: [], reject: [], ...step.build() }
      },
      observe: (event) => heap.observe(event),
    }
  },
})

export default definePlugin({
  name: 'shortest-first',
  apiVersion: 1,
  register: (host) => host.registerPolicy(shortestFirst),
})
