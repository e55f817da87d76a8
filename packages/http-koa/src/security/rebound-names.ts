import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import { hostOf, isAllowedOrigin } from './origins.js'

/** Names that no foreign DNS can point at this machine: addresses, `localhost` and local zones. */
const localName =
  /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\]|[^.]+|([^.]+\.)*(localhost|local|internal))$/i

/**
 * Whether a request came over the loopback interface, without TLS, under a public name: somebody's DNS
 * may have pointed that name at this machine, so that a page of that name counts as ours in a browser.
 *
 * @param known - names of this server
 */
export function mayBeRebound(ctx: Context, known: readonly string[]): boolean {
  const name = nameOf(ctx.get('Host'))
  if (name === '' || ctx.secure || !isLoopback(ctx.req.socket.localAddress ?? '')) return false
  return !localName.test(name) && !known.includes(name)
}

/**
 * Refuses reading under a name that may have been rebound to this machine: its page would see the
 * answers. With its own page's `GET` a browser sends no `Origin`, so this is true of every client, in
 * a browser or not. What passes: names that are configured, allowed origins, and pages with TLS, such as
 * those behind a proxy, which a browser's `Sec-Fetch-Site` tells.
 *
 * @param origins - whose pages may use the API, or `*`
 * @param known - further names of this server
 */
export function refuseReboundNames(
  origins: readonly string[],
  known: readonly string[],
): Middleware<KoaState> {
  const names = [...origins.map((origin) => hostOf(origin) ?? ''), ...known].map(nameOf)
  return async (ctx, next) => {
    const isReading = ctx.method === 'GET' || ctx.method === 'HEAD'
    const isWelcome =
      ctx.get('Sec-Fetch-Site') !== '' || isAllowedOrigin(origins, ctx.get('Origin'))
    if (isReading && !isWelcome && mayBeRebound(ctx, names)) throw refusal(ctx.get('Host'))
    await next()
  }
}

function refusal(given: string): CllmError {
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
