import type { SequenceView, WaitingView } from '@cllm/core'
import { boundedOvertaking, type PatienceOptions } from '../bounded-overtaking.js'
import { cachedTokens } from '../cached-tokens.js'
import type { Order } from '../order.js'

/** Requests that are ranked; the others come after them, as they wait. */
const rankedFirst = 128

/**
 * Longest cached prefix first, of the first 128 that wait, equals by arrival: what a slot holds is
 * used before it is overwritten. After SGLang (RadixAttention, arXiv 2312.07104), where requests
 * without a cached prefix can starve; here overtaking is bounded by {@link overtakingBound}.
 */
export function lpm({ patience }: PatienceOptions = {}): Order {
  return boundedOvertaking({ name: 'lpm', next: ({ waiting }) => byPrefix(waiting) }, patience)
}

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
