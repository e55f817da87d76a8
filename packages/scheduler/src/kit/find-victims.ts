import type { SchedulerState, SequenceView } from '@cllm/core'

/** A request is preempted at most this often, so that preemption ends. */
const mostPreemptions = 2
/** A request with fewer tokens left than this frees its slot soon enough. */
const nearlyDone = 16

/**
 * Finds a running request to preempt for each of the most urgent waiting ones, as long as there is one: the one with the
 * fewest computed tokens. Requests that were preempted twice or are nearly done keep their slots.
 *
 * @param urgent - the waiting requests, the most urgent first
 * @param isWorth - whether preempting `victim` for `request` helps
 */
export function findVictims(
  { running }: SchedulerState,
  urgent: Iterable<SequenceView>,
  isWorth: (request: SequenceView, victim: SequenceView) => boolean,
): SequenceView[] {
  const left = running.filter(
    (request) =>
      request.preemptions < mostPreemptions &&
      request.maxTokens - request.generatedTokens >= nearlyDone,
  )
  const victims: SequenceView[] = []
  if (left.length === 0) return victims
  for (const request of urgent) {
    let best: SequenceView | undefined
    for (const victim of left) {
      if (!isWorth(request, victim)) continue
      if (best === undefined || victim.computedTokens <= best.computedTokens) best = victim
    }
    if (best === undefined) break
    victims.push(best)
    left.splice(left.indexOf(best), 1)
  }
  return victims
}

/** The element with the largest value, of equal ones the last; undefined for an empty list. */
export function largest<T>(list: readonly T[], value: (one: T) => number): T | undefined {
  let best: T | undefined
  let most = -Infinity
  for (const one of list) {
    const now = value(one)
    if (best === undefined || now >= most) [best, most] = [one, now]
  }
  return best
}
