import type { Middleware, Context } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import { type TransportContext, CllmError } from '@cllm/core'
import cors from '@koa/cors'
import type { KeyAccess, KeyRing } from './api-key.js'
import { authenticate } from './authenticate.js'
import type { CreateLimitCounter, RateLimitOptions } from './rate-limits.js'
import { rateLimitHeaders, RateLimits } from './rate-limits.js'

/** Headers of pages, so that they cannot be framed and load nothing from other servers. */
const onPages = {
  'Content-Security-Policy':
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

/** Sets the headers that protect browsers, unless a page has set its own. */
export const securityHeaders: Middleware<KoaState> = async (ctx, next) => {
  // browsers must not guess an answer's type
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
  /** Limits of each key per minute; without keys they have no effect. Default: no limit. */
  readonly limits?: RateLimitOptions
  /** Makes the counters of the limits. Default: each process counts for itself. */
  readonly limitCounters?: CreateLimitCounter
  /**
   * Origins whose pages may use the API (CORS): also `*` for all, `localhost` for pages of this machine, `apps` for
   * pages that apps contain. Default: none. A server without keys that only listens on loopback always allows the
   * latter two. Pages of other origins are refused, even if they could not read the answer. Without keys, a proxy on
   * this machine may use the names of these origins as `Host`.
   */
  readonly corsOrigins?: readonly string[]
}

/**
 * Sets up the security that the options ask for.
 *
 * @param hosts - the names and addresses that the server listens on
 */
export function secure(
  { keys, limits, limitCounters, corsOrigins: given = [] }: SecurityOptions,
  { clock }: Pick<TransportContext, 'clock'>,
  hosts: readonly string[],
) {
  const isOwn = keys === undefined && areLoopback(hosts)
  const corsOrigins = isOwn ? [...given, ...ownOrigins] : given
  /** To run in this order, before the routes. */
  const middleware: Middleware<KoaState>[] = [securityHeaders]
  if (corsOrigins.length > 0) middleware.push(allowOrigins(corsOrigins))
  middleware.push(checkOrigins(corsOrigins, hosts, keys !== undefined))
  if (keys === undefined) return { middleware, observers: [] }
  const rates = new RateLimits(limits ?? {}, clock, limitCounters)
  middleware.push(authenticate(keys), rates.middleware)
  /** For work that runs later; absent without keys. */
  const access: KeyAccess = { keys, limit: rates.count.bind(rates) }
  return { middleware, observers: [rates], access }
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
    // as in llama-server, for pages that fetch with `credentials: 'include'`
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
    // as llama-server answers preflights
    ctx.status = 200
    const others = ctx.path.startsWith('/admin/') ? ', PUT, PATCH' : ''
    ctx.set('Access-Control-Allow-Methods', `GET, POST, DELETE, OPTIONS${others}`)
  }
}

/** Names that no foreign DNS can map to this machine: addresses, `localhost` and local zones. */
const localName =
  /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\]|[^.]+|([^.]+\.)*(localhost|local|internal))$/i

/**
 * Whether a request came over the loopback interface, without TLS, under a public name: a foreign DNS may have
 * mapped that name to this machine (DNS rebinding), so that browsers take its pages for this server's.
 *
 * @param known - the server's own names
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

/** A header for the reason of a refusal, for answers to preflights, whose bodies browsers hide. */
const reasonHeader = 'X-Cllm-Warning'

/**
 * Refuses requests from pages of other origins, unless that origin is allowed. Browsers send forms and texts to any
 * server without a preflight, and bodies are read whatever their type. Clients other than browsers send no `Origin`
 * and pass. The browser's `Sec-Fetch-Site` counts first; old browsers and pages without TLS are judged by `Origin`
 * and `Host`. If those have the same public name and the connection came over the loopback interface, the name may
 * have been rebound to this machine.
 *
 * The same can happen to requests that only read, whose answers such a page would see. Browsers send no `Origin` with
 * a `GET` to the page's own server, so these requests are checked for all clients. Configured names pass, and allowed
 * origins, and pages with TLS, such as behind a proxy, known by the browser's `Sec-Fetch-Site`. On a server with API
 * keys they are not checked, as a page without a key cannot read anything.
 *
 * @param allowed - the origins whose pages may use the API, or `*`
 * @param known - the server's own names, which are not rebound ones
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

/** Whether a request may pass that the browser does not declare as from this server's own page. */
function isWelcome(ctx: Context, allowed: readonly string[], known: readonly string[]): boolean {
  const origin = ctx.get('Origin')
  if (isAllowedOrigin(allowed, origin)) return true
  if (ctx.get('Sec-Fetch-Site') !== '') return false
  return hostOf(origin) === ctx.get('Host').toLowerCase() && !mayBeRebound(ctx, known)
}

/** Values of `--cors-origins` that would let a page in, and whose pages they let in, for the message. */
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

/** Origins that no web site can have: pages that apps contain, such as Obsidian, VS Code and apps made with Tauri. */
const appPage =
  /^((app|capacitor|ionic|tauri|vscode-file|vscode-webview|wails):\/\/[^/?#@]*|https?:\/\/tauri\.localhost)$/i

/** The origins allowed by default on a server without keys that only this machine can reach. */
export const ownOrigins: readonly string[] = ['localhost', 'apps']

/**
 * Whether these settings allow an origin: `*` allows all, `localhost` every page of this machine, whatever its port,
 * and `apps` pages that apps contain.
 */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') ||
  origins.includes(origin) ||
  (origins.includes('localhost') && localPage.test(origin)) ||
  (origins.includes('apps') && appPage.test(origin))

/** Whether only this machine can reach a server that listens on these hosts. */
export const areLoopback = (hosts: readonly string[]): boolean =>
  hosts.every((host) => /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/i.test(host))

/** The host and port of an origin; undefined for `null` and other schemes than HTTP and HTTPS. */
function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}
