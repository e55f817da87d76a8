import { CllmError, type Clock, type GenerateEvent } from '@cllm/core'
import type { Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import {
  type ObservedRequest,
  type RequestObserver,
  type RequestWatch,
  unwatched,
} from '../engines/request-observer.js'
import type { ApiKey } from './api-key.js'
import {
  type CreateLimitCounter,
  type LimitCounter,
  type LimitUnit,
  memoryCounter,
  TokenSums,
  type UsedOfWindow,
} from './limit-counters.js'
import { requestScope } from './authenticate.js'

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
  async count(key: ApiKey, tell: TellHeaders): Promise<void> {
    const { requestsPerMinute = this.defaults.requestsPerMinute } = key
    const { tokensPerMinute = this.defaults.tokensPerMinute } = key
    let exceeded: CllmError | undefined
    if (requestsPerMinute !== undefined) {
      const used = await this.#requests.penalty(key.hash, 1)
      const isOver = used.consumedPoints > requestsPerMinute
      exceeded = standing(tell, 'requests', requestsPerMinute, used, isOver)
    }
    if (tokensPerMinute !== undefined) {
      const used = await this.#tokens.get(key.hash)
      const isOver = (used?.consumedPoints ?? 0) >= tokensPerMinute
      const ofTokens = standing(tell, 'tokens', tokensPerMinute, used, isOver)
      exceeded ??= ofTokens
    }
    if (exceeded !== undefined) throw exceeded
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
}

type TellHeaders = (headers: Readonly<Record<string, string>>) => void

/** Tells the headers; the error where the limit is reached. */
function standing(
  tell: TellHeaders,
  unit: LimitUnit,
  limit: number,
  used: UsedOfWindow | null,
  isOver: boolean,
): CllmError | undefined {
  const seconds = Math.ceil((used?.msBeforeNext ?? 0) / 1000)
  tell({
    [`x-ratelimit-limit-${unit}`]: String(limit),
    [`x-ratelimit-remaining-${unit}`]: String(Math.max(0, limit - (used?.consumedPoints ?? 0))),
    [`x-ratelimit-reset-${unit}`]: `${seconds}s`,
  })
  if (!isOver) return undefined
  tell({ 'Retry-After': String(seconds) })
  const message = `The limit of ${limit} ${unit} a minute is reached; try again in ${seconds} s`
  return new CllmError('rate_limited', message, { details: { limit, unit } })
}
