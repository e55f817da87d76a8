import type { Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import type { TransportContext } from '@cllm/core'
import cors from '@koa/cors'
import type { RequestObserver } from '../engines/request-observer.js'
import type { KeyAccess, KeyRing } from './api-key.js'
import { authenticate } from './authenticate.js'
import { areLoopback, checkOrigins, isAllowedOrigin, ownOrigins } from './origins.js'
import type { CreateLimitCounter } from './limit-counters.js'
import { rateLimitHeaders, type RateLimitOptions, RateLimits } from './rate-limits.js'

/** On every answer: browsers are not to guess what it is. */
const always = { 'X-Content-Type-Options': 'nosniff' }

/** Headers of pages: they cannot be framed, and load nothing from elsewhere. */
const onPages = {
  'Content-Security-Policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

/** Sets the headers that keep browsers safe, where a page has not set its own. */
export const securityHeaders: Middleware<KoaState> = async (ctx, next) => {
  ctx.set(always)
  await next()
  if (ctx.headerSent || ctx.response.type !== 'text/html') return
  for (const [name, value] of Object.entries(onPages)) {
    if (!ctx.res.hasHeader(name)) ctx.set(name, value)
  }
}

/** Authentication, rate limits and allowed origins. */
export interface SecurityOptions {
  /** The API keys. Default: none is required. */
  readonly keys?: KeyRing
  /** What each key may do in a minute; without keys it means nothing. Default: no limit. */
  readonly limits?: RateLimitOptions
  /** Makes what counts towards the limits. Default: in this process alone. */
  readonly limitCounters?: CreateLimitCounter
  /**
   * Origins whose pages may use the API (CORS), `*` for all, `localhost` for those of this machine or
   * `apps` for those that apps bring along. Default: none, and both of the latter where the server has no
   * keys and listens on loopback only. Pages of other origins are refused, even where no answer of theirs
   * would be read. Without keys, the names of these origins are also those under which a proxy on this
   * machine may ask.
   */
  readonly corsOrigins?: readonly string[]
}

/** What a transport does so that its options hold. */
export interface Security {
  /** Run in this order, before the routes. */
  readonly middleware: readonly Middleware<KoaState>[]
  /** What counts for the limits. */
  readonly observers: readonly RequestObserver[]
  /** For what is computed later; absent without keys. */
  readonly access?: KeyAccess
}

/**
 * Sets up what {@link SecurityOptions} ask for.
 *
 * @param hosts - what the server listens on: names and addresses
 */
export function secure(
  { keys, limits, limitCounters, corsOrigins: given = [] }: SecurityOptions,
  { clock }: Pick<TransportContext, 'clock'>,
  hosts: readonly string[],
): Security {
  const isOwn = keys === undefined && areLoopback(hosts)
  const corsOrigins = isOwn ? [...given, ...ownOrigins] : given
  const middleware: Middleware<KoaState>[] = [securityHeaders]
  if (corsOrigins.length > 0) middleware.push(allowOrigins(corsOrigins))
  middleware.push(checkOrigins(corsOrigins, hosts, keys !== undefined))
  if (keys === undefined) return { middleware, observers: [] }
  const rates = new RateLimits(limits ?? {}, clock, limitCounters)
  middleware.push(authenticate(keys), rates.middleware)
  const limit: KeyAccess['limit'] = async (key, tell) => await rates.count(key, tell)
  return { middleware, observers: [rates], access: { keys, limit } }
}

const exposedHeaders = [
  'X-Request-Id',
  'X-Cllm-Request-Id',
  'X-Cllm-Warning',
  'X-Queue-Position',
  'X-Predicted-TTFT-Ms',
  'Retry-After',
  ...rateLimitHeaders,
]

function allowOrigins(origins: readonly string[]): Middleware<KoaState> {
  const answer = cors({
    origin: (ctx) => {
      const origin = ctx.get('Origin')
      return isAllowedOrigin(origins, origin) ? origin : ''
    },
    // as llama-server does, for pages that ask with `credentials: 'include'`
    credentials: origins.includes('*'),
    exposeHeaders: exposedHeaders,
    maxAge: 600,
  }) as Middleware<KoaState>
  return async (ctx, next) => {
    if (ctx.get('Origin') === '') {
      ctx.vary('Origin')
      return await next()
    }
    await answer(ctx, next)
    if (ctx.method !== 'OPTIONS' || ctx.status !== 204) return
    // as llama-server answers what browsers ask before
    ctx.status = 200
    const others = ctx.path.startsWith('/admin/') ? ', PUT, PATCH' : ''
    ctx.set('Access-Control-Allow-Methods', `GET, POST, DELETE, OPTIONS${others}`)
  }
}
