import type { SequenceView, WaitingView } from '@cllm/core'
import { defineBoundedOrder } from '../kit/bounded-overtaking.js'
import { cachedTokens } from '../kit/waiting-heap.js'

/** Requests that are ranked; the others come after them, as they wait. */
const rankedFirst = 128

/**
 * Longest cached prefix first, of the first 128 that wait, equals by arrival: what a slot holds is
 * used before it is overwritten. After SGLang (RadixAttention, arXiv 2312.07104), where requests
 * without a cached prefix can starve; here overtaking is bounded by {@link overtakingBound}.
 */
export const lpm = defineBoundedOrder({
  name: 'lpm',
  doc: 'Longest prefix match: the longest prefix that a slot holds, of the first 128 requests (SGLang, arXiv 2312.07104). For the hit rate.',
  create: () => ({ next: ({ waiting }) => byPrefix(waiting) }),
})

function* byPrefix(waiting: WaitingView): Iterable<SequenceView> {
  const window: { request: SequenceView; cached: number }[] = []
  const inOrder = (): SequenceView[] =>
    window.sort((one, other) => other.cached - one.cached).map(({ request }) => request)
  let isRanked = false
  for (const request of waiting) {
    if (window.length < rankedFirst) {
      window.push({ request, cached: cachedTokens(request) })
      continue
    }
    if (!isRanked) yield* inOrder()
    isRanked = true
    yield request
  }
  if (!isRanked) yield* inOrder()
}
