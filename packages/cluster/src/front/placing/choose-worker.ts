import type { Logger, Placement, RouterPolicy } from '@cllm/core'
import { askRouter, CllmError, isOfBatch, madeAs } from '@cllm/core'
import { leastHoldMs } from '@cllm/scheduler'
import { isSameModel, type Member, type Members } from '../members.js'
import type { WorkerRecord } from '../../messages.js'
import type { Sleep } from '../sleep-watch.js'
import type { PlacedRequest } from './placed-request.js'

/** Milliseconds after which a request that waits for starting workers is tried again. */
const gatherMs = 20

/** The decision on a request. */
export type Choice =
  | { readonly member: Member; readonly isExact: boolean }
  /** The request waits until this time; Infinity: until there is a worker for it. */
  | { readonly holdUntil: number }
  | { readonly error: CllmError }

/** The parts with which a worker is chosen. */
export interface Choosing {
  readonly members: Members
  readonly router: RouterPolicy
  readonly logger: Logger
  readonly sleep: Sleep
}

/** Whether a worker generates the same tokens as the last one, and as many; true for all before the first token. */
export const isExactOn = (
  { drawnBy }: PlacedRequest,
  { fingerprint, info: { limits } }: WorkerRecord,
): boolean =>
  drawnBy === undefined ||
  (drawnBy.fingerprint === fingerprint && drawnBy.info.limits.contextSize <= limits.contextSize)

/** Whether a worker can continue the tokens so far at all: it may serve another model under the same name. */
const isPossibleOn = ({ drawnBy }: PlacedRequest, { info }: WorkerRecord): boolean =>
  drawnBy === undefined || isSameModel(drawnBy.info.model, info.model)

/** Asks the router to choose among the workers that may take a request: those that continue it exactly, if any. */
export function chooseWorker(placed: PlacedRequest, parts: Choosing, now: number): Choice {
  const { members, router, logger, sleep } = parts
  // The front does not know yet which workers closed their links while it was suspended.
  if (sleep.isCatchingUp) return { holdUntil: Infinity }
  const request = placed.routed
  const ofBatch = isOfBatch(placed.request)
  const { refusedContext } = placed
  const mayTake = ({ clients, record }: Member): boolean =>
    // Requests of batches go to workers without requests of clients.
    !(ofBatch && clients > 0) && record.info.limits.contextSize > refusedContext
  const isFree = placed.drawnBy === undefined && !ofBatch && refusedContext === 0
  const views = (isFit: (member: Member) => boolean) => {
    if (isFree) return members.table.views(request, now)
    const fit = new Set(members.all.filter(isFit).map(({ record }) => record.id))
    return members.table.views(request, now, (id) => fit.has(id))
  }
  let found = views((one) => mayTake(one) && isExactOn(placed, one.record))
  const isExact = found.length > 0
  if (!isExact && placed.drawnBy !== undefined) {
    found = views((one) => mayTake(one) && isPossibleOn(placed, one.record))
  }
  if (found.length === 0) return { holdUntil: Infinity }
  if (members.isGathering) return { holdUntil: now + gatherMs }
  let answer: Placement
  try {
    answer = askRouter(router, request, found, now)
  } catch (error) {
    logger.error(
      { router: madeAs(router), err: error },
      'the router failed: the first worker is taken',
    )
    answer = { worker: found[0]!.id }
  }
  if ('holdMs' in answer) return { holdUntil: now + Math.max(leastHoldMs, answer.holdMs) }
  if ('refuse' in answer) {
    const details = answer.retryMs === undefined ? {} : { retryAfterMs: answer.retryMs }
    return { error: new CllmError('rejected', answer.refuse, { details }) }
  }
  const member = members.get(answer.worker)
  return member === undefined ? { holdUntil: now + 1000 } : { member, isExact }
}
