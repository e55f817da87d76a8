import { inject, injectable } from 'tsyringe'
import { CllmError } from '../../errors/cllm-error.js'
import { ENGINE_OPTIONS, type EngineOptions } from '../engine-options.js'
import * as parts from '../engine-parts.js'
import { WaitingQueue } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'

/**
 * Refuses requests when the queue is too long. Requests that can start in a free slot do not count as queued. Each
 * refusal has a `retryAfterMs` in its details.
 */
@injectable()
export class QueueLimits implements parts.Admission {
  constructor(
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(parts.KV_CACHE_MANAGER) private readonly kv: parts.KVCacheManager,
    @inject(parts.WAIT_PREDICTOR) private readonly predictor: parts.WaitPredictor,
    @inject(ENGINE_OPTIONS) private readonly limits: EngineOptions,
  ) {}

  /**
   * Checks the number of waiting requests, before any work is done for a new one.
   *
   * @param arriving - requests whose prompts are still being tokenized
   */
  checkCount(arriving: number, now: number): void {
    const { maxQueuedRequests: limit } = this.limits
    const { waiting, kv, predictor } = this
    const waits = waiting.total + arriving
    if (waits < limit + kv.freeSlots) return
    const retryAfterMs = predictor.waitMs(waits - limit, now)
    const message = `${limit} requests are waiting, which is the limit`
    throw new CllmError('queue_full', message, { details: { limit, retryAfterMs } })
  }

  /** Checks the tokens in the queue, and the predicted wait. */
  check(sequence: Sequence, now: number): void {
    if (this.waiting.total < this.kv.freeSlots) return
    this.#checkTokens(sequence, now)
    checkWait(sequence.forecast?.queueMs, this.limits.maxQueueWaitMs)
  }

  #checkTokens({ promptTokens }: Sequence, now: number): void {
    const { maxQueuedTokens: limit } = this.limits
    const { waiting, kv, predictor } = this
    if (limit === undefined || waiting.total <= kv.freeSlots) return
    let over = waiting.promptTokens + promptTokens - limit
    if (over <= 0) return
    let place = 0
    for (const first of waiting.all()) {
      over -= first.promptTokens
      if (over <= 0) break
      place++
    }
    const message =
      `${waiting.promptTokens} tokens of prompts are waiting; ` +
      `with ${promptTokens} more they would be over the limit of ${limit}`
    const retryAfterMs = predictor.waitMs(place, now)
    throw new CllmError('queue_full', message, { details: { limit, retryAfterMs } })
  }
}

/** Checks a predicted wait. @throws CllmError `wait_too_long` with a `retryAfterMs` if it is longer than the limit */
export function checkWait(queueMs = 0, limit = Infinity, what = 'It'): void {
  if (queueMs <= limit) return
  const seconds = (ms: number): string => (ms / 1000).toFixed(1)
  const message = `${what} would wait ${seconds(queueMs)} s for its turn; the limit is ${seconds(limit)} s`
  const details = { limit, queueMs, retryAfterMs: queueMs - limit }
  throw new CllmError('wait_too_long', message, { details })
}
