import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'

/** Methods that change nothing and start no work; what they answer a foreign page cannot read. */
const readingMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/** Names that no foreign DNS can point at this machine: addresses, `localhost` and local zones. */
const localName =
  /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\]|[^.]+|([^.]+\.)*(localhost|local|internal))$/i

/** Whether these settings let pages of this origin use the API. */
export const isAllowedOrigin = (origins: readonly string[], origin: string): boolean =>
  origins.includes('*') || origins.includes(origin)

/**
 * Refuses what a page of another origin sends, unless that origin is allowed: a browser sends a
 * form or a text anywhere without asking, and bodies are taken whatever their type. Clients that are
 * no browsers send no `Origin` and pass. A browser's own word (`Sec-Fetch-Site`) counts first; older
 * ones and pages without TLS are judged by `Origin` and `Host`. Where those agree on a public name and
 * the connection came over the loopback interface, the name may have been rebound to this machine.
 */
export function refuseOtherOrigins(allowed: readonly string[]): Middleware<KoaState> {
  return async (ctx, next) => {
    if (!readingMethods.has(ctx.method) && !isWelcome(ctx, allowed)) {
      throw refusal(ctx.get('Origin').slice(0, 256))
    }
    await next()
  }
}

function refusal(origin: string): CllmError {
  const known = hostOf(origin) !== undefined
  const message = known
    ? `Pages of ${origin} may not use this server; --cors-origins ${origin} would let them`
    : 'Pages of other origins may not use this server; --cors-origins says which ones may'
  return new CllmError('origin_not_allowed', message, { details: { origin } })
}

function isWelcome(ctx: Context, allowed: readonly string[]): boolean {
  const origin = ctx.get('Origin')
  const site = ctx.get('Sec-Fetch-Site')
  if (isAllowedOrigin(allowed, origin)) return true
  if (site !== '') return site === 'same-origin' || site === 'none'
  return origin === '' || (hostOf(origin) === ctx.get('Host').toLowerCase() && !mayBeRebound(ctx))
}

/** The host and port of an origin; undefined of `null` and what is no URL of the web. */
function hostOf(origin: string): string | undefined {
  const [, host] = /^https?:\/\/([^/?#@]+)$/i.exec(origin) ?? []
  return host?.toLowerCase()
}

function mayBeRebound(ctx: Context): boolean {
  const name = ctx.get('Host').replace(/:\d{1,5}$/, '')
  return isLoopback(ctx.req.socket.localAddress ?? '') && !localName.test(name)
}

const isLoopback = (address: string): boolean => /^(::ffff:)?127\.|^::1$/.test(address)
