import { type RoutedRequest, type RouterPolicy, defineRouter } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/bounded-overtaking.js'
import { type Bound, homesOf, isWithin, leastBy } from './choose.js'

const boundOptions = {
  slack: notNegative
    .default(1)
    .describe('How much later, as a share, the first token may be at home than elsewhere.'),
  steps: notNegative.default(4).describe('The same in steps of the worker, added to it.'),
}

/** The best of the homes of a request's key; within the bound, else the best of all. */
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
