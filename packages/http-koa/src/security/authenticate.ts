import { AsyncLocalStorage } from 'node:async_hooks'
import type { ApiKey, KeyRing, KeyRole } from './api-key.js'
import { CllmError } from '@cllm/core'
import type { Context, Middleware } from 'koa'
import type { KoaState } from '../routes/koa-context.js'
import type { Access } from '../routes/route.js'

/** The client on whose behalf code runs. */
export interface RequestScope {
  readonly key: ApiKey
}

/**
 * The scope of the request in progress. Every call of an engine can look it up, so that no protocol, not even a
 * plug-in's, can forget to pass on whose request it is.
 */
export const requestScope = new AsyncLocalStorage<RequestScope>()

/** Whether the request may change the server: it has an admin's key, or the server has no keys. */
export const mayChangeServer = (): boolean =>
  (requestScope.getStore()?.key.role ?? 'admin') === 'admin'

/**
 * Requires an API key: `Authorization: Bearer KEY` or `x-api-key: KEY`. Without a valid one the answer is 401,
 * and 403 if the key's role does not suffice.
 */
export function authenticate(keys: KeyRing): Middleware<KoaState> {
  return async (ctx, next) => {
    const { access, methods } = ctx.state.match
    // browsers send OPTIONS without a key first; mounted routes, which might answer it themselves, are not excepted
    if (access === 'open' || (ctx.method === 'OPTIONS' && methods.length > 0)) return await next()
    const secret = secretOf(ctx)
    const key = secret === undefined ? undefined : await keys.find(secret)
    // In plain JavaScript, a protocol's keys may say null.
    if (!key) {
      // Anthropic's and OpenAI's clients would retry ten times before they report the error
      ctx.set({ 'WWW-Authenticate': 'Bearer', 'x-should-retry': 'false' })
      const message =
        secret === undefined
          ? 'Expected an API key in "Authorization: Bearer KEY" or "x-api-key: KEY", instead got none'
          : 'Expected an API key that is valid here, instead got another one'
      throw new CllmError('unauthenticated', message)
    }
    checkRole(key, ctx.path, access)
    ctx.state.keyName = key.name
    await requestScope.run({ key }, next)
  }
}

/** The roles that suffice, by access. */
const sufficient: Readonly<Record<Exclude<Access, 'open'>, readonly KeyRole[]>> = {
  user: ['user', 'admin'],
  metrics: ['metrics', 'admin'],
  admin: ['admin'],
}

/** Refuses a key whose role does not suffice. */
export function checkRole(key: ApiKey, path: string, access: keyof typeof sufficient): void {
  if (sufficient[access].includes(key.role)) return
  const needed = `${path} needs a key with the role ${sufficient[access].join(' or ')}`
  throw new CllmError('forbidden', `${needed}; that of "${key.name}" is ${key.role}`)
}

function secretOf(ctx: Context): string | undefined {
  const [, bearer] = /^bearer +(\S+) *$/i.exec(ctx.get('Authorization')) ?? []
  return bearer ?? (ctx.get('x-api-key') || undefined)
}
