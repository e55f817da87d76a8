import type { SequenceView } from '@cllm/core'
import TinyQueue from 'tinyqueue'

interface Entry {
  readonly request: SequenceView
  readonly rank: number
  readonly turn: number
}

/**
 * Requests by rank, the lowest first, equals as they are given. Ranks all of them when the first one
 * is asked for, and sorts no more of them than are asked for.
 *
 * @param estimates - requests with what is known of each
 */
export function* ranked(
  estimates: Iterable<readonly [SequenceView, number]>,
  rank: (request: SequenceView, estimate: number) => number,
): Iterable<SequenceView> {
  const entries: Entry[] = []
  for (const [request, estimate] of estimates) {
    entries.push({ request, rank: rank(request, estimate), turn: entries.length })
  }
  const heap = new TinyQueue(
    entries,
    (one, other) => one.rank - other.rank || one.turn - other.turn,
  )
  for (let entry = heap.pop(); entry !== undefined; entry = heap.pop()) yield entry.request
}
