import { CllmError, type Clock, defined, type GenerateEvent } from '@cllm/core'
import type { Middleware } from 'koa'
import {
  type EmbeddedInput,
  type KoaState,
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
  unwatched,
} from '../routes/koa-context.js'
import type { ApiKey } from './api-key.js'
import { requestScope } from './authenticate.js'
import { createRequire } from 'node:module'
import type * as RateLimiters from 'rate-limiter-flexible'

/** Takes headers of an answer. */
type TellHeaders = (headers: Readonly<Record<string, string>>) => void

/** What a key may do in a minute that does not have limits of its own. */
export interface RateLimitOptions {
  /** Default: no limit. */
  readonly requestsPerMinute?: number
  /** Tokens of prompts and answers together. Default: no limit. */
  readonly tokensPerMinute?: number
}

/** The headers that say where a key stands. */
export const rateLimitHeaders = ['limit', 'remaining', 'reset'].flatMap((what) =>
  (['requests', 'tokens'] satisfies LimitUnit[]).map((unit) => `x-ratelimit-${what}-${unit}`),
)

/**
 * Limits what each key may do in a minute, and says so in OpenAI's `x-ratelimit-*` headers. Tokens
 * are counted when they come, so that what a request will take need not be guessed: while a minute's
 * tokens are used up new requests are refused, and those under way go on. A refused request counts as one.
 */
export class RateLimits implements RequestObserver {
  readonly #requests: LimitCounter
  readonly #tokens: TokenSums

  constructor(
    private readonly defaults: RateLimitOptions,
    clock: Clock,
    createCounter: CreateLimitCounter = memoryCounter,
  ) {
    this.#requests = createCounter('requests')
    this.#tokens = new TokenSums(createCounter('tokens'), clock)
  }

  /** Counts requests that make the engine work, and refuses them over the limit. */
  readonly middleware: Middleware<KoaState> = async (ctx, next) => {
    const key = requestScope.getStore()?.key
    if (key !== undefined && ctx.method === 'POST') {
      await this.count(key, (headers) => ctx.set({ ...headers }))
    }
    await next()
  }

  /**
   * Counts a request of a key, before it looks, so that requests that come together cannot all be the last
   * one.
   *
   * @param tell - takes the headers that say where the key stands
   * @throws `rate_limited` over a limit
   */
  async count(key: ApiKey, tell: TellHeaders = () => {}): Promise<void> {
    const { requestsPerMinute = this.defaults.requestsPerMinute } = key
    const { tokensPerMinute = this.defaults.tokensPerMinute } = key
    let over: { limit: number; unit: string; seconds: number } | undefined
    const limits = { requests: requestsPerMinute, tokens: tokensPerMinute }
    for (const [unit, limit] of Object.entries(defined(limits))) {
      const counts = unit === 'requests'
      const used = await (counts ? this.#requests.penalty(key.hash, 1) : this.#tokens.get(key.hash))
      const { consumedPoints = 0, msBeforeNext: ms = 0 } = used ?? {}
      // When the machine's clock is set, counters that go by it are wrong about this: the window ends all the same.
      const isPossible = ms >= 0 && ms <= 1000 * limitWindowSeconds
      const seconds = isPossible ? Math.ceil(ms / 1000) : limitWindowSeconds
      tell({
        [`x-ratelimit-limit-${unit}`]: String(limit),
        [`x-ratelimit-remaining-${unit}`]: String(Math.max(0, limit - consumedPoints)),
        [`x-ratelimit-reset-${unit}`]: `${seconds}s`,
      })
      const isOver = counts ? consumedPoints > limit : consumedPoints >= limit
      // who came when the other one ends would be refused again
      if (isOver && seconds > (over?.seconds ?? -1)) over = { limit, unit, seconds }
    }
    if (over === undefined) return
    const { limit, unit, seconds } = over
    const message = `The limit of ${limit} ${unit} a minute is reached; try again in ${seconds} s`
    const details = { limit, unit, retryAfterMs: seconds * 1000 }
    throw new CllmError('rate_limited', message, { details })
  }

  onSubmit({ request }: ObservedRequest): RequestWatch {
    const key = requestScope.getStore()?.key
    const limit = key?.tokensPerMinute ?? this.defaults.tokensPerMinute
    if (key === undefined || limit === undefined) return unwatched
    // The prompt of one that goes on after a pause was counted when it began.
    const isNew = request.continued === undefined
    return {
      onEvent: (event: GenerateEvent) => {
        if (event.type === 'start' && isNew) this.#tokens.add(key.hash, event.promptTokens)
        else if (event.type === 'token') this.#tokens.add(key.hash, 1)
      },
      onEnd() {},
    }
  }

  onEmbedded({ tokens }: EmbeddedInput): void {
    const key = requestScope.getStore()?.key
    const limit = key?.tokensPerMinute ?? this.defaults.tokensPerMinute
    if (key !== undefined && limit !== undefined) this.#tokens.add(key.hash, tokens)
  }
}

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
  /** What is not counted yet; while there is anything, its counting is due. */
  readonly #sums = new Map<string, number>()

  constructor(
    private readonly counter: LimitCounter,
    private readonly clock: Clock,
  ) {}

  /** Counts tokens of a key, soon. */
  add(key: string, tokens: number): void {
    if (this.#sums.size === 0) this.clock.at(this.clock.now() + flushMs, () => this.#flush())
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + tokens)
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
    const sums = [...this.#sums]
    this.#sums.clear()
    // A counter that fails has said so to its owner's log; the tokens are then not counted.
    for (const [key, tokens] of sums) this.counter.penalty(key, tokens).catch(() => {})
  }
}
