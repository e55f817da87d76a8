import type { Logger, Placement, RoutedRequest, RouterPolicy, WorkerView } from '@cllm/core'
import { CllmError, isOfBatch } from '@cllm/core'
import { leastHoldMs } from '@cllm/scheduler'
import { isSameModel, type Member, type Members } from '../members.js'
import type { WorkerRecord } from '../../messages.js'
import type { Sleep } from '../sleep-watch.js'
import type { PlacedRequest } from './placed-requests.js'

/** How long it waits at a time for workers that are about to come. */
const gatherMs = 20

/** Where a request goes. */
export type Choice =
  | { readonly member: Member; readonly isExact: boolean }
  /** Nowhere before this time; Infinity: before there is a worker for it. */
  | { readonly holdUntil: number }
  | { readonly error: CllmError }

/** What a choice is made with. */
export interface Choosing {
  readonly members: Members
  readonly router: RouterPolicy
  readonly logger: Logger
  readonly sleep: Sleep
}

/** Whether a worker draws what the one before would have; all do until there is a token. */
export const isExactOn = ({ drawnBy }: PlacedRequest, { fingerprint }: WorkerRecord): boolean =>
  drawnBy === undefined || drawnBy.fingerprint === fingerprint

/** Whether a worker can go on with the tokens so far at all: another model may be there under the same name. */
const isPossibleOn = ({ drawnBy }: PlacedRequest, { info }: WorkerRecord): boolean =>
  drawnBy === undefined || isSameModel(drawnBy.info.model, info.model)

/** Asks the router about the workers that may have a request: those that continue it exactly, if any. */
export function chooseWorker(placed: PlacedRequest, parts: Choosing, now: number): Choice {
  const { members, router, logger, sleep } = parts
  // Workers that have given this front up while it was stopped are not known to have done so yet.
  if (sleep.isCatchingUp) return { holdUntil: Infinity }
  const request = placed.routed
  const ofBatch = isOfBatch(placed.request)
  // A batch runs where no client has anything.
  const idle = ofBatch ? ({ clients }: Member) => clients === 0 : () => true
  const isFree = placed.drawnBy === undefined && !ofBatch
  const views = (isFit: (member: Member) => boolean) => {
    if (isFree) return members.table.views(request, now)
    const fit = new Set(members.all.filter(isFit).map(({ record }) => record.id))
    return members.table.views(request, now, (id) => fit.has(id))
  }
  let found = views((one) => idle(one) && isExactOn(placed, one.record))
  const isExact = found.length > 0
  if (!isExact && placed.drawnBy !== undefined) {
    found = views((one) => idle(one) && isPossibleOn(placed, one.record))
  }
  if (found.length === 0) return { holdUntil: Infinity }
  if (members.isGathering) return { holdUntil: now + gatherMs }
  const answer = askRouter(router, request, found, now, logger)
  if ('holdMs' in answer) return { holdUntil: now + Math.max(leastHoldMs, answer.holdMs) }
  if ('refuse' in answer) {
    const details = answer.retryMs === undefined ? {} : { retryAfterMs: answer.retryMs }
    return { error: new CllmError('rejected', answer.refuse, { details }) }
  }
  const member = members.get(answer.worker)
  return member === undefined ? { holdUntil: now + 1000 } : { member, isExact }
}

/**
 * What the router says of a request. A router that throws, or answers what cannot be done, is logged, and
 * the first worker is taken.
 *
 * @param views - the workers that may have it, at least one
 */
function askRouter(
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
