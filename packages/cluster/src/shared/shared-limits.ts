import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import type { RedisBus } from '../bus/redis-bus.js'

/** What a key has used of its window. */
export interface SharedUse {
  readonly consumedPoints: number
  /** Until the window ends. */
  readonly msBeforeNext: number
}

/** Counts what keys use in windows, over all fronts. */
export interface SharedCounter {
  /** What a key has used; null where it has no window. */
  get(key: string): Promise<SharedUse | null>
  /** Adds to it, beginning a window where there is none. */
  penalty(key: string, points: number): Promise<SharedUse>
}

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
