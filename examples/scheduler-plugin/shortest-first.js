// @ts-check
import { definePlugin } from '@cllm/core'
import { z } from 'zod'

const options = z.strictObject({
  /** Most tokens in a step. */
  budget: z.int().min(1).default(256),
  /** Tokens of work that a second of waiting outweighs. */
  aging: z.number().positive().default(100),
})

/**
 * Whoever has the least left to compute goes first, but waiting counts too: nobody starves. Prompts
 * are computed whole, as far as the budget goes.
 *
 * @param {{ budget: number, aging: number }} options
 * @returns {import('@cllm/core').SchedulerPolicy}
 */
export function shortestFirst({ budget, aging }) {
  return {
    name: 'shortest-first',
    options: { budget, aging },
    plan({ now, waiting, running, freeSlots, limits }) {
      /** @type {(request: import('@cllm/core').SequenceView) => number} */
      const rank = (request) => request.remainingTokens - ((now - request.arrival) / 1000) * aging
      const next = freeSlots === 0 ? [] : lowest(waiting, rank, freeSlots)
      let left = Math.min(budget, limits.batchSize)
      const run = []
      const candidates = lowest([...running, ...next], rank, Infinity)
      for (const { id, remainingTokens, stepGroup } of candidates) {
        if (left === 0 || stepGroup !== candidates[0]?.stepGroup) continue
        const tokens = Math.min(remainingTokens, left)
        run.push({ id, tokens })
        left -= tokens
      }
      return { admit: next.map(({ id }) => id), preempt: [], reject: [], run }
    },
  }
}

/**
 * The first `count` by rank, found in one pass: thousands may wait.
 *
 * @template T
 * @param {Iterable<T>} items
 * @param {(item: T) => number} rank
 * @param {number} count
 */
function lowest(items, rank, count) {
  /** @type {{ item: T, rank: number }[]} */
  const best = []
  for (const item of items) {
    const entry = { item, rank: rank(item) }
    if (best.length === count && entry.rank >= (best.at(-1)?.rank ?? 0)) continue
    const place = best.findIndex((other) => entry.rank < other.rank)
    best.splice(place < 0 ? best.length : place, 0, entry)
    if (best.length > count) best.pop()
  }
  return best.map(({ item }) => item)
}

export default definePlugin({
  name: 'shortest-first',
  apiVersion: 1,
  register(host) {
    host.registerPolicy('shortest-first', (given) => shortestFirst(options.parse(given)))
  },
})
