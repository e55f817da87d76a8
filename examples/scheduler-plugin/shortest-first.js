// @ts-check
import { definePlugin } from '@cllm/core'
import { z } from 'zod'

const options = z.strictObject({
  /** Most tokens in a step. */
  budget: z.int().min(1).default(256),
})

/**
 * Whoever has the least left to compute goes first; prompts are computed whole, as far as the budget
 * goes.
 *
 * @param {{ budget: number }} options
 * @returns {import('@cllm/core').SchedulerPolicy}
 */
export function shortestFirst({ budget }) {
  return {
    name: 'shortest-first',
    options: { budget },
    plan({ waiting, running, freeSlots, limits }) {
      const next = freeSlots === 0 ? [] : [...waiting].sort(byWork).slice(0, freeSlots)
      let left = Math.min(budget, limits.batchSize)
      const run = []
      for (const { id, remainingTokens } of [...running, ...next].sort(byWork)) {
        const tokens = Math.min(remainingTokens, left)
        if (tokens > 0) run.push({ id, tokens })
        left -= tokens
      }
      return { admit: next.map(({ id }) => id), preempt: [], reject: [], run }
    },
  }
}

/** @type {(a: import('@cllm/core').SequenceView, b: import('@cllm/core').SequenceView) => number} */
const byWork = (a, b) => a.remainingTokens - b.remainingTokens

export default definePlugin({
  name: 'shortest-first',
  apiVersion: 1,
  register(host) {
    host.registerPolicy('shortest-first', (given) => shortestFirst(options.parse(given)))
  },
})
