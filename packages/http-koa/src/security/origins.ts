import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'

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
  if (name === '' || ctx.secure || !isLoopback(ctx.req.socket.localAddress ?? '')) return false
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

const isLoopback = (address: string): boolean => /^(::ffff:)?127\.|^::1$/.test(address)

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
      if (!isOwn && !isWelcome(ctx, allowed, known)) {
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

function otherOrigin(origin: string): CllmError {
  const isApp = isAllowedOrigin(['apps'], origin)
  const message =
    isApp || hostOf(origin) !== undefined
      ? `Pages of ${origin} may not use this server; --cors-origins ${origin} would let them` +
        (isApp
          ? ', and --cors-origins apps all apps'
          : isAllowedOrigin(['localhost'], origin)
            ? ', and --cors-origins localhost all of this machine'
            : '')
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
