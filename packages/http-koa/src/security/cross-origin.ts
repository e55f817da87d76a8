import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import { hostOf, isAllowedOrigin } from './origins.js'
import { mayBeRebound } from './rebound-names.js'

/**
 * Methods that change nothing and start no work. What they answer a foreign page cannot read, unless
 * its name was rebound: see `refuseReboundNames`.
 */
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
 * @param known - names of this server, which were not rebound
 */
export function refuseOtherOrigins(
  allowed: readonly string[],
  known: readonly string[],
): Middleware<KoaState> {
  return async (ctx, next) => {
    const isPreflight = ctx.method === 'OPTIONS' && ctx.get('Access-Control-Request-Method') !== ''
    const isReading = readingMethods.has(ctx.method) && !isPreflight
    if (!isReading && !isWelcome(ctx, allowed, known)) {
      const error = refusal(ctx.get('Origin').slice(0, 256))
      if (isPreflight) ctx.set(reasonHeader, error.message)
      throw error
    }
    await next()
  }
}

function refusal(origin: string): CllmError {
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

function isWelcome(ctx: Context, allowed: readonly string[], known: readonly string[]): boolean {
  const origin = ctx.get('Origin')
  const site = ctx.get('Sec-Fetch-Site')
  if (isAllowedOrigin(allowed, origin)) return true
  if (site !== '') return site === 'same-origin' || site === 'none'
  if (origin === '') return true
  return hostOf(origin) === ctx.get('Host').toLowerCase() && !mayBeRebound(ctx, known)
}
