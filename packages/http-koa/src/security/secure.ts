import type { Middleware, Context } from 'koa'
import type { KoaState, RequestObserver } from '../routes/koa-context.js'
import { type TransportContext, CllmError } from '@cllm/core'
import cors from '@koa/cors'
import type { KeyAccess, KeyRing } from './api-key.js'
import { authenticate } from './authenticate.js'
import type { CreateLimitCounter, RateLimitOptions } from './rate-limits.js'
import { rateLimitHeaders, RateLimits } from './rate-limits.js'

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
  // browsers are not to guess what an answer is
  ctx.set('X-Content-Type-Options', 'nosniff')
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
  return { middleware, observers: [rates], access: { keys, limit: rates.count.bind(rates) } }
}

const exposedHeaders = [
  'X-Request-Id',
  'X-Cllm-Request-Id',
  'X-Cllm-Warning',
  'X-Queue-Position',
  'X-Predicted-TTFT-Ms',
  'Retry-After',
  'x-should-retry',
  ...rateLimitHeaders,
]

function allowOrigins(origins: readonly string[]): Middleware<KoaState> {
  const answer = cors({
    origin: (ctx) => (isAllowedOrigin(origins, ctx.get('Origin')) ? ctx.get('Origin') : ''),
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

/** Names that no foreign DNS can point at this machine: addresses, `localhost` and local zones. */
const localName =
  /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\]|[^.]+|([^.]+\.)*(localhost|local|internal))$/i

/**
 * Whether a request came over the loopback interface, without TLS, under a public name: somebody's DNS
 * may have pointed that name at this machine, so that a page of that name counts as ours in a browser.
 *
 * @param known - names of this server
 */
function mayBeRebound(ctx: Context, known: readonly string[]): boolean {
  const name = nameOf(ctx.get('Host'))
  const isLoopback = /^(::ffff:)?127\.|^::1$/.test(ctx.req.socket.localAddress ?? '')
  if (name === '' || ctx.secure || !isLoopback) return false
  return !localName.test(name) && !known.includes(name)
}

function reboundName(given: string): CllmError {
  const host = given.slice(0, 256)
  const message =
    `The name ${host} may have been pointed at this machine by a web page's owner; ` +
    `if it is this server's, --cors-origins http://${host} says so`
  return new CllmError('origin_not_allowed', message, { details: { host } })
}

/** The name in a `Host` header, without the port and the dot of the root. */
const nameOf = (host: string): string =>
  host
    .toLowerCase()
    .replace(/:\d{1,5}$/, '')
    .replace(/\.$/, '')

/** Methods that change nothing and start no work. */
const readingMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Carries the reason where browsers hide bodies: on the answers to what they ask before a page's request. */
const reasonHeader = 'X-Cllm-Warning'

/**
 * Refuses what a page of another origin sends, unless that origin is allowed: a browser sends a
 * form or a text anywhere without asking, and bodies are taken whatever their type. Clients that are
 * no browsers send no `Origin` and pass. A browser's own word (`Sec-Fetch-Site`) counts first; older
 * ones and pages without TLS are judged by `Origin` and `Host`. Where those agree on a public name and
 * the connection came over the loopback interface, the name may have been rebound to this machine.
 *
 * So may the name under which something is read, whose page would see the answers: with its own page's
 * `GET` a browser sends no `Origin`, so this is true of every client, in a browser or not. What passes:
 * names that are configured, allowed origins, and pages with TLS, such as those behind a proxy, which a
 * browser's `Sec-Fetch-Site` tells. With API keys, a page that has none cannot read anything.
 *
 * @param allowed - whose pages may use the API, or `*`
 * @param known - names of this server, which were not rebound
 */
export function checkOrigins(
  allowed: readonly string[],
  known: readonly string[],
  hasKeys: boolean,
): Middleware<KoaState> {
  const names = [...allowed.map((origin) => hostOf(origin) ?? ''), ...known].map(nameOf)
  return async (ctx, next) => {
    const { method } = ctx
    const [origin, site] = [ctx.get('Origin'), ctx.get('Sec-Fetch-Site')]
    const isPreflight = method === 'OPTIONS' && ctx.get('Access-Control-Request-Method') !== ''
    if (isPreflight || !readingMethods.has(method)) {
      const isOwn = site === '' ? origin === '' : site === 'same-origin' || site === 'none'
      if (!isOwn && !isWelcome(ctx, allowed, names)) {
        const error = otherOrigin(origin.slice(0, 256))
        if (isPreflight) ctx.set(reasonHeader, error.message)
        throw error
      }
    } else if (!hasKeys && method !== 'OPTIONS' && site === '') {
      if (!isAllowedOrigin(allowed, origin) && mayBeRebound(ctx, names)) {
        throw reboundName(ctx.get('Host'))
      }
    }
    await next()
  }
}

/** Whether pages of an origin may send something that a browser does not call this server's own. */
function isWelcome(ctx: Context, allowed: readonly string[], known: readonly string[]): boolean {
  const origin = ctx.get('Origin')
  if (isAllowedOrigin(allowed, origin)) return true
  if (ctx.get('Sec-Fetch-Site') !== '') return false
  return hostOf(origin) === ctx.get('Host').toLowerCase() && !mayBeRebound(ctx, known)
}

/** What else would let a page in, by what it is. */
const alsoAdmitting = { apps: 'all apps', localhost: 'all of this machine' }

function otherOrigin(origin: string): CllmError {
  const isOf = ([kind]: readonly [string, string]) => isAllowedOrigin([kind], origin)
  const [kind, whom] = Object.entries(alsoAdmitting).find(isOf) ?? []
  const more = kind === undefined ? '' : `, and --cors-origins ${kind} ${whom}`
  const message =
    kind === 'apps' || hostOf(origin) !== undefined
      ? `Pages of ${origin} may not use this server; --cors-origins ${origin} would let them${more}`
      : 'Pages of other origins may not use this server; --cors-origins says which ones may'
  return new CllmError('origin_not_allowed', message, { details: { origin } })
}

const localPage = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/i

/** Origins that no web site can have: apps that bring their pages along, such as Obsidian, Tauri's and VS Code's. */
const appPage =
  /^((app|capacitor|ionic|tauri|vscode-file|vscode-webview|wails):\/\/[^/?#@]*|https?:\/\/tauri\.localhost)$/i

/** What the pages of this machine are, for a server that only this machine reaches and that asks for no key. */
export const ownOrigins: readonly string[] = ['localhost', 'apps']

/**
 * Whether these settings let pages of this origin use the API: `*` is all of them, `localhost` is every
 * page of this machine, whatever its port, and `apps` those that apps bring along.
 */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') ||
  origins.includes(origin) ||
  (origins.includes('localhost') && localPage.test(origin)) ||
  (origins.includes('apps') && appPage.test(origin))

/** Whether only this machine reaches a server that listens there. */
export const areLoopback = (hosts: readonly string[]): boolean =>
  hosts.every((host) => /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host))

/** The host and port of an origin; undefined of `null` and what is no URL of the web. */
function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}
