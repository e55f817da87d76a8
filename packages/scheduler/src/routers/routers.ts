import type { WorkerView, RoutedRequest, RouterPolicy, RouterDefinition } from '@cllm/core'
import { defineRouter } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/options.js'
import { leastBy, nearlyLeastBy, drawTwo, type Bound, homesOf, isWithin } from './choose.js'

/**
 * The earliest first token, predicted by each worker's own costs: its wait, the part of the prompt that it has not
 * cached, and the delay that this prompt causes for the requests beside it. The worker with the most cached tokens wins
 * within a bound, as the prompt then stays there for the next turn. Prefixes that many workers have do not count for that.
 */
export const prefixWait = defineRouter({
  name: 'prefix-wait',
  doc: 'The earliest first token, predicted from the wait and from the part of the prompt that the worker does not hold; the worker that holds the most wins within a bound.',
  options: z.object({
    slack: notNegative
      .default(0.25)
      .describe('How much later, as a share, the first token may be where most is held.'),
    steps: notNegative.default(1).describe('The same in steps of the worker, added to it.'),
    beside: notNegative
      .default(0.25)
      .describe('What the time of its prompt costs each request beside it, as a share of it.'),
  }),
  create: ({ beside, slack, steps }) => ({
    place(request, workers) {
      const costOf = (worker: WorkerView): number => {
        const { firstTokenMs, waitMs, open } = worker
        return firstTokenMs + beside * open * (firstTokenMs - waitMs)
      }
      const earliest = nearlyLeastBy(request.id, workers, costOf)
      if (ownTokens(workers) <= request.promptTokens / 8) return { worker: earliest.id }
      const most = leastBy(workers, ({ cachedTokens }) => -cachedTokens)
      const bound = (1 + slack) * costOf(earliest) + steps * most.stepMs
      return { worker: (costOf(most) <= bound ? most : earliest).id }
    },
  }),
})

/**
 * How many cached tokens only the best worker has: tokens that three workers have cached belong to a common prefix, not
 * to one conversation.
 */
function ownTokens(workers: readonly WorkerView[]): number {
  let [first, second, third] = [0, 0, 0]
  for (const { cachedTokens } of workers) {
    if (cachedTokens <= third) continue
    if (cachedTokens > first) [first, second, third] = [cachedTokens, first, second]
    else if (cachedTokens > second) [second, third] = [cachedTokens, second]
    else third = cachedTokens
  }
  return first - third
}

/** The workers in turns. */
export const roundRobin = defineRouter({
  name: 'round-robin',
  doc: 'The workers in turns.',
  create() {
    let last = ''
    return {
      place(_, workers) {
        // By id and not by index, so that a worker that joins or leaves does not shift the turns.
        const next = workers.find(({ id }) => id > last) ?? workers[0]!
        last = next.id
        return { worker: next.id }
      },
    }
  },
})

/** The worker with the fewest requests; for a request with files, each file that waits there counts as one more. */
export const leastLoaded = defineRouter({
  name: 'least-loaded',
  doc: 'The worker with the fewest requests.',
  create: () => ({
    place({ files }, workers) {
      const best = leastBy(workers, (one) => one.open + (files.length > 0 ? one.backlogFiles : 0))
      return { worker: best.id }
    },
  }),
})

/** The worker with the shortest predicted wait. */
export const leastWait = defineRouter({
  name: 'least-wait',
  doc: 'The worker with the shortest predicted wait, whatever it holds.',
  create: () => ({
    place: ({ id }, workers) => ({ worker: nearlyLeastBy(id, workers, ({ waitMs }) => waitMs).id }),
  }),
})

/**
 * The better one of two workers drawn by the request's id: nearly as balanced as the best of all, and fronts with old
 * views do not all choose the same worker (Mitzenmacher 2001).
 */
export const twoChoices = defineRouter({
  name: 'two-choices',
  doc: 'Of two workers drawn by the request, the one with the earlier first token; robust against old views.',
  create: () => ({
    place({ id }, workers) {
      const two = drawTwo(id, workers)
      return { worker: leastBy(two, ({ firstTokenMs }) => firstTokenMs).id }
    },
  }),
})

const boundOptions = {
  slack: notNegative
    .default(1)
    .describe('How much later, as a share, the first token may be at home than elsewhere.'),
  steps: notNegative.default(4).describe('The same in steps of the worker, added to it.'),
}

/** The best of the workers of a request's key, if it is within the bound; otherwise the best of all workers. */
function sticky(
  keyOf: (request: RoutedRequest) => string | undefined,
  { homes, ...bound }: Bound & { readonly homes: number },
): RouterPolicy {
  return {
    place(request, workers) {
      const earliest = leastBy(workers, ({ firstTokenMs }) => firstTokenMs)
      const key = keyOf(request)
      if (key === undefined) return { worker: earliest.id }
      const home = leastBy(homesOf(key, workers, homes), ({ firstTokenMs }) => firstTokenMs)
      return { worker: (isWithin(bound, home, earliest.firstTokenMs) ? home : earliest).id }
    },
  }
}

/** Each tenant on a few workers of its own. */
export const tenantSticky = defineRouter({
  name: 'tenant-sticky',
  doc: 'Each tenant on a few `homes` by its name, and elsewhere when these are too busy: its prompts stay there, and a tenant that floods does not reach all.',
  options: z.object({
    homes: z.number().int().min(1).default(2).describe('Workers of a tenant.'),
    ...boundOptions,
  }),
  create: (options) => sticky(({ tenant }) => tenant, options),
})

/** Each conversation on one worker. */
export const session = defineRouter({
  name: 'session',
  doc: "Each conversation, by the request's `session`, on one worker, and elsewhere when that is too busy; others where the first token is earliest.",
  options: z.object(boundOptions),
  create: (bound) => sticky((request) => request.session, { ...bound, homes: 1 }),
})

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

/** Tokens per block in Dynamo. */
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

/** The built-in routers, the default first. */
export const routers: readonly RouterDefinition[] = [
  prefixWait,
  roundRobin,
  leastLoaded,
  leastWait,
  twoChoices,
  tenantSticky,
  session,
  cacheAware,
  kv,
]
