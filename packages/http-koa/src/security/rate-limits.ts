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

/** Sets headers of an answer. */
type TellHeaders = (headers: Readonly<Record<string, string>>) => void

/** Limits per minute of keys without limits of their own. */
export interface RateLimitOptions {
  /** Default: no limit. */
  readonly requestsPerMinute?: number
  /** Tokens of prompts and answers together. Default: no limit. */
  readonly tokensPerMinute?: number
}

/** The headers with a key's limits and how much is left of them. */
export const rateLimitHeaders = ['limit', 'remaining', 'reset'].flatMap((what) =>
  (['requests', 'tokens'] satisfies LimitUnit[]).map((unit) => `x-ratelimit-${what}-${unit}`),
)

/**
 * Limits the requests and tokens of each key per minute, and reports them in OpenAI's `x-ratelimit-*` headers.
 * Tokens are counted as they are computed, so that a request's need is not guessed: once the minute's tokens
 * are used up, new requests are refused, and those in progress go on. A refused request counts as one, too.
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

  /** Counts requests that may use the engine, and refuses them above the limit. */
  readonly middleware: Middleware<KoaState> = async (ctx, next) => {
    const key = requestScope.getStore()?.key
    if (key !== undefined && ctx.method === 'POST') {
      await this.count(key, (headers) => ctx.set({ ...headers }))
    }
    await next()
  }

  /**
   * Counts a request of a key, and only then compares with the limit, so that of requests that arrive together not
   * every one passes as the last allowed.
   *
   * @param tell - takes the headers with the key's limits
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
      // Counters that use the machine's clock are wrong after it was set; the window ends nevertheless.
      const isPossible = ms >= 0 && ms <= 1000 * limitWindowSeconds
      const seconds = isPossible ? Math.ceil(ms / 1000) : limitWindowSeconds
      tell({
        [`x-ratelimit-limit-${unit}`]: String(limit),
        [`x-ratelimit-remaining-${unit}`]: String(Math.max(0, limit - consumedPoints)),
        [`x-ratelimit-reset-${unit}`]: `${seconds}s`,
      })
      const isOver = counts ? consumedPoints > limit : consumedPoints >= limit
      // of two limits that are reached, the later end counts: a client that retries at the earlier one is refused again
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
    // The prompt of a request that continues another one was counted when that one began.
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

/** The unit of a limit. */
export type LimitUnit = 'requests' | 'tokens'

/** The length of a limit's window in seconds; a window begins with its first request. */
export const limitWindowSeconds = 60

/** How much a key has used in its window. */
export interface UsedOfWindow {
  readonly consumedPoints: number
  /** Milliseconds until the window ends. */
  readonly msBeforeNext: number
}

/** Counts by key in windows of {@link limitWindowSeconds}; all limiters of rate-limiter-flexible implement it. */
export interface LimitCounter {
  /** How much a key has used; null if it has no window. */
  get(key: string): Promise<UsedOfWindow | null>
  /** Adds to a key's window, which begins if there is none. */
  penalty(key: string, points: number): Promise<UsedOfWindow>
}

/** Makes the counter of a unit. */
export type CreateLimitCounter = (unit: LimitUnit) => LimitCounter

/** A counter in this process. */
export const memoryCounter = (): LimitCounter => {
  // Loaded on demand, as its index loads the limiters of all databases, and servers without limits need none.
  const { RateLimiterMemory } = load('rate-limiter-flexible') as typeof RateLimiters
  return new RateLimiterMemory({ points: Number.MAX_SAFE_INTEGER, duration: limitWindowSeconds })
}

/** Milliseconds for which tokens are summed before they are counted. */
const flushMs = 250

/** Sums tokens before they are counted, so that a remote counter gets one message per key and not one per token. */
export class TokenSums {
  /** Tokens that are not counted yet, by key; while there are any, a flush is due. */
  readonly #sums = new Map<string, number>()

  constructor(
    private readonly counter: LimitCounter,
    private readonly clock: Clock,
  ) {}

  /** Counts tokens of a key within `flushMs` milliseconds. */
  add(key: string, tokens: number): void {
    if (this.#sums.size === 0) this.clock.at(this.clock.now() + flushMs, () => this.#flush())
    this.#sums.set(key, (this.#sums.get(key) ?? 0) + tokens)
  }

  /** How much a key has used, including tokens that are not counted yet. */
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
    // A counter logs its own failures; the tokens are then not counted.
    for (const [key, tokens] of sums) this.counter.penalty(key, tokens).catch(() => {})
  }
}
