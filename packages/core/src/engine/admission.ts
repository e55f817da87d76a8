import { CllmError } from '../errors/cllm-error.js'
import type { EngineOptions } from './engine-options.js'
import type { Roster } from './roster.js'
import type { Sequence } from './sequence.js'

type Limits = Pick<EngineOptions, 'maxQueuedRequests' | 'maxQueuedTokens' | 'maxQueueWaitMs'>

/**
 * Refuses requests that would wait in too long a queue. Those that free slots are there for do not
 * wait in this sense. Each refusal says when it is worth trying again: `retryAfterMs` in its details.
 */
export class Admission {
  constructor(
    private readonly roster: Roster,
    private readonly limits: Limits,
  ) {}

  /**
   * By the number of requests, before anything is done for one more.
   *
   * @param reading - requests whose prompts are being tokenized
   */
  checkCount(reading: number, now: number): void {
    const { maxQueuedRequests: limit } = this.limits
    const { waiting, slots, forecaster } = this.roster
    const waits = waiting.total + reading
    if (waits < limit + slots.freeCount) return
    const retryAfterMs = forecaster.turnMs(waits - limit, now)
    const message = `${limit} requests are waiting, which is the limit`
    throw new CllmError('queue_full', message, { details: { limit, retryAfterMs } })
  }

  /** By tokens and by the time that it would wait. */
  check(sequence: Sequence, now: number): void {
    const { waiting, slots } = this.roster
    if (waiting.total < slots.freeCount) return
    this.#checkTokens(sequence, now)
    this.#checkWait(sequence)
  }

  #checkTokens({ promptTokens }: Sequence, now: number): void {
    const { maxQueuedTokens: limit } = this.limits
    const { waiting, slots, forecaster } = this.roster
    if (limit === undefined || waiting.total <= slots.freeCount) return
    let over = waiting.promptTokens + promptTokens - limit
    if (over <= 0) return
    let place = 0
    for (const first of waiting.everyone()) {
      over -= first.promptTokens
      if (over <= 0) break
      place++
    }
    const message =
      `${waiting.promptTokens} tokens of prompts are waiting; ` +
      `with ${promptTokens} more they would be over the limit of ${limit}`
    const retryAfterMs = forecaster.turnMs(place, now)
    throw new CllmError('queue_full', message, { details: { limit, retryAfterMs } })
  }

  #checkWait({ forecast }: Sequence): void {
    const { maxQueueWaitMs: limit } = this.limits
    const { queueMs = 0 } = forecast ?? {}
    if (limit === undefined || queueMs <= limit) return
    const seconds = (ms: number): string => (ms / 1000).toFixed(1)
    const message = `It would wait ${seconds(queueMs)} s for its turn; the limit is ${seconds(limit)} s`
    const details = { limit, queueMs, retryAfterMs: queueMs - limit }
    throw new CllmError('wait_too_long', message, { details })
  }
}
