import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import type { RedisBus } from '../bus/redis-bus.js'

/** Counts what keys use in windows, over all fronts, as all limiters of rate-limiter-flexible do. */
export type SharedCounter = Pick<RateLimiterRedis, 'get' | 'penalty'>

/**
 * A counter on the cluster's server. While that does not answer, each front counts for itself.
 *
 * @param unit a name for what is counted
 * @param windowSeconds from the first point on
 */
export function sharedCounter(bus: RedisBus, unit: string, windowSeconds: number): SharedCounter {
  const { client, prefix } = bus.store
  const window = { points: Number.MAX_SAFE_INTEGER, duration: windowSeconds }
  return new RateLimiterRedis({
    ...window,
    storeClient: client,
    useRedisPackage: true,
    rejectIfRedisNotReady: true,
    keyPrefix: `${prefix}limit:${unit}`,
    insuranceLimiter: new RateLimiterMemory(window),
  })
}
