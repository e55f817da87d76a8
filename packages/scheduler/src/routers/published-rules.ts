import { defineRouter } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/bounded-overtaking.js'
import { leastBy } from './choose.js'

/**
 * SGLang's rule (`cache_aware` of its router): while the load is even, the longest match if it is more
 * than a threshold of the prompt, otherwise the fewest requests.
 */
export const cacheAware = defineRouter({
  name: 'cache_aware',
  doc: "SGLang's rule, to compare with: the longest match above `threshold` while the load is even, else the fewest requests.",
  options: z.object({
    threshold: z.number().min(0).max(1).default(0.5).describe('Least share of the prompt.'),
    abs: notNegative.default(32).describe('Uneven: this many requests more than the idlest …'),
    rel: z.number().min(1).default(1.1).describe('… and this many times its number.'),
  }),
  create: ({ threshold, abs, rel }) => ({
    place({ promptTokens }, workers) {
      const idlest = leastBy(workers, ({ open }) => open)
      const busiest = leastBy(workers, ({ open }) => -open)
      const isUneven = busiest.open - idlest.open > abs && busiest.open > rel * idlest.open
      if (isUneven) return { worker: idlest.id }
      const match = leastBy(workers, ({ cachedTokens }) => -cachedTokens)
      return { worker: (match.cachedTokens > threshold * promptTokens ? match : idlest).id }
    },
  }),
})

/** Tokens of Dynamo's block. */
const block = 16

/**
 * Dynamo's rule (`kv` of its router): the least sum of blocks to prefill, with the request's, and
 * blocks to decode with; its temperature of 0 draws nothing.
 */
export const kv = defineRouter({
  name: 'kv',
  doc: "Dynamo's rule, to compare with: the least sum of blocks to prefill, `scale` times, and blocks to decode with.",
  options: z.object({
    scale: notNegative.default(1).describe('Weight of the blocks to prefill.'),
    credit: notNegative.default(1).describe('Weight of the blocks that are held.'),
  }),
  create: ({ scale, credit }) => ({
    place({ promptTokens }, workers) {
      const blocksOf = (tokens: number) => Math.ceil(tokens / block)
      const incoming = blocksOf(promptTokens)
      const best = leastBy(workers, ({ backlogTokens, cachedTokens, openTokens }) => {
        const held = credit * Math.floor(cachedTokens / block)
        const prefill = Math.max(0, blocksOf(backlogTokens) + incoming - held)
        return scale * prefill + blocksOf(openTokens) + incoming
      })
      return { worker: best.id }
    },
  }),
})
