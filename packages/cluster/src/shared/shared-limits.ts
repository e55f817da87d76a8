import { within } from '@cllm/core'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import type { RedisBus } from '../bus/redis-bus.js'

/** Counts what keys use in windows, over all fronts, as all limiters of rate-limiter-flexible do. */
export type SharedCounter = Pick<RateLimiterRedis, 'get' | 'penalty'>

/** A server that has not answered after this many milliseconds is counted without. */
const patienceMs = 1000

/**
 * A counter on the cluster's server. While that does not answer, each front counts for itself: no request waits for
 * longer than a second.
 *
 * @param unit a name for what is counted
 * @param windowSeconds from the first point on
 */
export function sharedCounter(bus: RedisBus, unit: string, windowSeconds: number): SharedCounter {
  const { client, prefix, clock } = bus.store
  const window = { points: Number.MAX_SAFE_INTEGER, duration: windowSeconds }
  const own = new RateLimiterMemory(window)
  const shared = new RateLimiterRedis({
    ...window,
    storeClient: client,
    useRedisPackage: true,
    rejectIfRedisNotReady: true,
    keyPrefix: `${prefix}limit:${unit}`,
    insuranceLimiter: own,
  })
  async function count<T>(ask: (counter: SharedCounter) => Promise<T>): Promise<T> {
    if (!bus.isReachable) return await ask(own)
    return await within(clock, patienceMs, ask(shared), async () => await ask(own))
  }
  return {
    get: async (...given) => await count(async (counter) => await counter.get(...given)),
    penalty: async (...given) => await count(async (counter) => await counter.penalty(...given)),
  }
}
