import type { Logger, Placement, RoutedRequest, RouterPolicy, WorkerView } from '@cllm/core'

/**
 * What the router says of a request. A router that throws, or answers what cannot be done, is logged, and
 * the first worker is taken.
 *
 * @param views - the workers that may have it, at least one
 */
export function askRouter(
  router: RouterPolicy,
  request: RoutedRequest,
  views: readonly WorkerView[],
  now: number,
  logger: Logger,
): Placement {
  try {
    const answer = router.place(request, views, now)
    if (isPossible(answer, views)) return answer
    throw new TypeError(wrong(answer))
  } catch (error) {
    logger.error({ err: error }, 'the router failed: the first worker is taken')
    return { worker: views[0]!.id }
  }
}

/** Whether it can be carried out: a plug-in in plain JavaScript may answer anything. */
function isPossible(answer: Placement, views: readonly WorkerView[]): boolean {
  if (typeof answer !== 'object' || answer === null) return false
  if ('holdMs' in answer) return answer.holdMs >= 0
  if ('refuse' in answer) return typeof answer.refuse === 'string' && answer.refuse !== ''
  return views.some(({ id }) => id === answer.worker)
}

function wrong(answer: unknown): string {
  // Nobody waits for it: its rejection would end the process.
  if (answer instanceof Promise) answer.catch(() => {})
  const expected = '{ worker } of those it was given, { holdMs } from 0, or { refuse } with a text'
  const came = answer instanceof Promise ? 'a promise: place is synchronous' : shown(answer)
  return `place: expected ${expected}, instead got ${came}`
}

function shown(answer: unknown): string {
  if (typeof answer !== 'object' || answer === null) return String(answer)
  const fields = Object.entries(answer).map(([key, value]) => `${key}: ${String(value)}`)
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`
}
