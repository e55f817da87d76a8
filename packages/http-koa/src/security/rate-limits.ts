import { CllmError, type GenerateEvent } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { KoaState } from '../routes/koa-context.js'
import type { RequestObserver, RequestWatch } from '../engines/request-observer.js'
import type { ApiKey } from './api-key.js'
import { requestScope } from './request-scope.js'

/** What a key may do in a minute that does not have limits of its own. */
export interface RateLimitOptions {
  /** Default: no limit. */
  readonly requestsPerMinute?: number
  /** Tokens of prompts and answers together. Default: no limit. */
  readonly tokensPerMinute?: number
}

type Unit = 'requests' | 'tokens'

/** The headers that say where a key stands. */
export const rateLimitHeaders = ['limit', 'remaining', 'reset'].flatMap((what) =>
  (['requests', 'tokens'] satisfies Unit[]).map((unit) => `x-ratelimit-${what}-${unit}`),
)

/** Seconds that a limit is for, from the first request on. */
const windowSeconds = 60

/**
 * Limits what each key may do in a minute, and says so in OpenAI's `x-ratelimit-*` headers. Tokens
 * are counted when they come, so that what a request will take need not be guessed: while a minute's
 * tokens are used up new requests are refused, and those under way go on.
 */
export class RateLimits implements RequestObserver {
  readonly #used: Readonly<Record<Unit, RateLimiterMemory>> = {
    requests: counter(),
    tokens: counter(),
  }

  constructor(private readonly defaults: RateLimitOptions) {}

  /** Counts requests that make the engine work, and refuses them over the limit. */
  readonly middleware: Middleware<KoaState> = async (ctx, next) => {
    const key = requestScope.getStore()?.key
    if (key !== undefined && ctx.method === 'POST') {
      const exceeded = [
        await this.#check(ctx, key, 'requests', 1),
        await this.#check(ctx, key, 'tokens', 0),
      ].find((each) => each !== undefined)
      if (exceeded !== undefined) throw exceeded
    }
    await next()
  }

  onSubmit(): RequestWatch {
    const key = requestScope.getStore()?.key
    if (key === undefined || this.#limitOf(key, 'tokens') === undefined) return unwatched
    return {
      onEvent: (event: GenerateEvent) => {
        if (event.type === 'start') void this.#used.tokens.penalty(key.hash, event.promptTokens)
        else if (event.type === 'token') void this.#used.tokens.penalty(key.hash, 1)
      },
      onEnd() {},
    }
  }

  async #check(
    ctx: Context,
    key: ApiKey,
    unit: Unit,
    cost: number,
  ): Promise<CllmError | undefined> {
    const limit = this.#limitOf(key, unit)
    if (limit === undefined) return undefined
    const used = this.#used[unit]
    const before = await used.get(key.hash)
    const isOver = (before?.consumedPoints ?? 0) >= limit
    const now = isOver || cost === 0 ? before : await used.penalty(key.hash, cost)
    const seconds = Math.ceil((now?.msBeforeNext ?? 0) / 1000)
    ctx.set({
      [`x-ratelimit-limit-${unit}`]: String(limit),
      [`x-ratelimit-remaining-${unit}`]: String(Math.max(0, limit - (now?.consumedPoints ?? 0))),
      [`x-ratelimit-reset-${unit}`]: `${seconds}s`,
    })
    if (!isOver) return undefined
    ctx.set('Retry-After', String(seconds))
    const message = `The limit of ${limit} ${unit} a minute is reached; try again in ${seconds} s`
    return new CllmError('rate_limited', message, { details: { limit, unit } })
  }

  #limitOf(key: ApiKey, unit: Unit): number | undefined {
    return unit === 'requests'
      ? (key.requestsPerMinute ?? this.defaults.requestsPerMinute)
      : (key.tokensPerMinute ?? this.defaults.tokensPerMinute)
  }
}

const unwatched: RequestWatch = { onEvent() {}, onEnd() {} }

const counter = (): RateLimiterMemory =>
  new RateLimiterMemory({ points: Number.MAX_SAFE_INTEGER, duration: windowSeconds })
