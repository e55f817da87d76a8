import { createRequire } from 'node:module'
import type { Clock } from '@cllm/core'
import type * as RateLimiters from 'rate-limiter-flexible'

const load = createRequire(import.meta.url)

/** What a limit counts. */
export type LimitUnit = 'requests' | 'tokens'

/** Seconds that a limit is for, from the first request on. */
export const limitWindowSeconds = 60

/** What a key has used of its window. */
export interface UsedOfWindow {
  readonly consumedPoints: number
  /** Until the window ends. */
  readonly msBeforeNext: number
}

/** Counts for each key in windows of {@link limitWindowSeconds}; all limiters of rate-limiter-flexible do. */
export interface LimitCounter {
  /** What a key has used; null where it has no window. */
  get(key: string): Promise<UsedOfWindow | null>
  /** Adds to it, beginning a window where there is none. */
  penalty(key: string, points: number): Promise<UsedOfWindow>
}

/** Makes the counter of a unit. */
export type CreateLimitCounter = (unit: LimitUnit) => LimitCounter

/** A counter in this process. */
export const memoryCounter = (): LimitCounter => {
  // Its index loads the limiters of all data bases, which servers without limits need not.
  const { RateLimiterMemory } = load('rate-limiter-flexible') as typeof RateLimiters
  return new RateLimiterMemory({ points: Number.MAX_SAFE_INTEGER, duration: limitWindowSeconds })
}

/** Milliseconds for which tokens are summed before they are counted. */
const flushMs = 250

/** Counts tokens in sums, so that a counter elsewhere has one message a key and not one a token. */
export class TokenSums {
  readonly #sums = new Map<string, number>()
  #isDue = false

  constructor(
    private readonly counter: LimitCounter,
    private readonly clock: Clock,
  ) {}

  /** Counts tokens of a key, soon. */
  add(key: string, tokens: number): void {
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + tokens)
    if (this.#isDue) return
    this.#isDue = true
    this.clock.at(this.clock.now() + flushMs, () => this.#flush())
  }

  /** What a key has used, with what is not counted yet. */
  async get(key: string): Promise<UsedOfWindow | null> {
    const own = this.#sums.get(key) ?? 0
    const counted = await this.counter.get(key)
    if (own === 0) return counted
    const { consumedPoints = 0, msBeforeNext = limitWindowSeconds * 1000 } = counted ?? {}
    return { consumedPoints: consumedPoints + own, msBeforeNext }
  }

  #flush(): void {
    this.#isDue = false
    const sums = [...this.#sums]
    this.#sums.clear()
    // A counter that fails has said so to its owner's log; the tokens are then not counted.
    for (const [key, tokens] of sums) this.counter.penalty(key, tokens).catch(() => {})
  }
}
