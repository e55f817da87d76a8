import { within } from '@cllm/core'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import type { RedisBus } from '../bus/redis-bus.js'

/** Counts the usage of keys in windows, across all fronts, with the interface of rate-limiter-flexible's limiters. */
export type SharedCounter = Pick<RateLimiterRedis, 'get' | 'penalty'>

/** Milliseconds after which a front counts for itself if the server does not answer. */
const patienceMs = 1000

/**
 * A counter on the cluster's server. While that does not answer, each front counts for itself, so that no request waits
 * for longer than a second.
 *
 * @param unit the name of the counted unit
 * @param windowSeconds the length of a window, which begins with the first point
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
