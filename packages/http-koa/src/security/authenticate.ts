import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import type { KeyRing } from './api-key.js'
import { requestScope } from './request-scope.js'

const openPaths: ReadonlySet<string> = new Set([
  '/',
  '/health',
  '/health/live',
  '/health/ready',
  '/v1/health',
  '/docs',
  '/openapi.json',
  '/metrics/load',
])

/** The web page asks for a key itself; its files are in the published package. */
const isPage = (path: string): boolean => /^\/ui(\/|$)/.test(path)

/**
 * Paths without a key: health checks; the load for endpoint pickers, which have none to send; the
 * overview, the description of the API and the files of the web page, which a browser opens without one;
 * and what browsers ask before they send a key.
 */
export const isOpen = (method: string, path: string): boolean =>
  /^options$/i.test(method) ||
  ((openPaths.has(path) || isPage(path)) && /^(get|head)$/i.test(method))

/** Paths for admins only: they change the server, show all of it, or put load on it. */
const forAdmins: ReadonlySet<string> = new Set([
  '/metrics',
  '/benchmark',
  '/models/load',
  '/models/unload',
  '/v1/load_lora_adapter',
  '/v1/unload_lora_adapter',
  '/api/pull',
  '/api/create',
  '/api/copy',
  '/api/delete',
])

export const isForAdmins = (method: string, path: string): boolean =>
  forAdmins.has(path) ||
  /^\/(admin|api\/blobs)(\/|$)/.test(path) ||
  (path === '/lora-adapters' && /^post$/i.test(method))

/**
 * Requires an API key: `Authorization: Bearer KEY` or `x-api-key: KEY`. Without one the answer is 401,
 * and 403 when the key's role does not suffice.
 */
export function authenticate(keys: KeyRing): Middleware<KoaState> {
  return async (ctx, next) => {
    const path = withoutEnd(ctx.path.toLowerCase())
    if (isOpen(ctx.method, path)) return await next()
    const secret = secretOf(ctx)
    const key = secret === undefined ? undefined : keys.find(secret)
    if (key === undefined) {
      ctx.set('WWW-Authenticate', 'Bearer')
      throw new CllmError('unauthenticated', refusal(secret))
    }
    if (key.role !== 'admin' && isForAdmins(ctx.method, path)) {
      const message = `${ctx.path} needs the key of an admin; that of "${key.name}" is a user's`
      throw new CllmError('forbidden', message)
    }
    ctx.state.keyName = key.name
    await requestScope.run({ key }, next)
  }
}

/** A path without the slashes at its end. */
function withoutEnd(path: string): string {
  let end = path.length
  while (end > 1 && path[end - 1] === '/') end--
  return path.slice(0, end)
}

function secretOf(ctx: Context): string | undefined {
  const [, bearer] = /^bearer +(\S+) *$/i.exec(ctx.get('Authorization')) ?? []
  return bearer ?? (ctx.get('x-api-key') || undefined)
}

const refusal = (secret: string | undefined): string =>
  secret === undefined
    ? 'Expected an API key in "Authorization: Bearer KEY" or "x-api-key: KEY", instead got none'
    : 'Expected an API key that is valid here, instead got another one'
