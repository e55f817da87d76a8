import { defined } from '@cllm/core'
import { z } from 'zod'
import { integer, largest, name, type JsonObject } from '../../fields/fields.js'
import { invalidField, orUnsupported } from '../../request/refusals.js'
import { del, get, patch, post, strict } from '../../routes/route.js'
import type { Answer, Call, CallOf, QueryCallOf, Route } from '../../routes/route.js'
import { type ApiKey, keyRoles, type KeyStore } from '../../security/api-key.js'
import { requestScope } from '../../security/authenticate.js'

/** The context of the handlers of keys. */
export interface KeysContext {
  readonly keys: KeyStore | undefined
}

const limit = integer(1, largest).optional()

/** The body of `POST /admin/keys`. */
const keySchema = z.object({
  name,
  tenant: name.optional(),
  role: z.enum(keyRoles, 'user, metrics or admin').optional(),
  requests_per_minute: limit,
  tokens_per_minute: limit,
  tokens_per_month: limit,
})

/** The body of `PATCH /admin/keys/:name`. */
const limitsSchema = z.object({
  requests_per_minute: limit.nullable(),
  tokens_per_minute: limit.nullable(),
  tokens_per_month: limit.nullable(),
})

/** The query of `DELETE /admin/keys`. */
const keyQuery = z.object({ name: z.string('the name of a key') })

/** `GET /admin/keys`: the keys without their secrets and hashes; `asks` marks the request's own key. */
async function getKeys(_call: Call, { keys }: KeysContext): Promise<Answer> {
  const all = await ensure(keys).list()
  const asking = requestScope.getStore()?.key.hash
  const data = all.map((key) => ({ ...describe(key), asks: key.hash === asking }))
  return { success: true, data }
}

/** `POST /admin/keys`: makes a key. Only this answer contains its secret. */
async function addKey(call: CallOf<typeof keySchema>, { keys }: KeysContext) {
  const store = ensure(keys)
  const { name, tenant = name, role = 'user', ...limits } = call.fields
  const key = { name, tenant, role, ...limitsOf(limits) }
  const secret = await store.add(key)
  tellLog(call, 'an API key was added', { name, role })
  call.set({ 'Cache-Control': 'no-store' })
  return { success: true, data: { ...describe(key), key: secret } }
}

/** `PATCH /admin/keys/:name`: changes the limits of a key from its next request on; null removes a limit. */
async function limitKey(call: CallOf<typeof limitsSchema>, { keys }: KeysContext) {
  const store = ensure(keys)
  const limits = call.fields
  const key = await store.limit(call.params['name'] ?? '', limitsOf(limits))
  tellLog(call, 'the limits of an API key were changed', { name: key.name, ...limits })
  return { success: true, data: describe(key) }
}

/** `DELETE /admin/keys?name=`: revokes a key. The request's own key cannot be revoked. */
async function removeKey(call: QueryCallOf<typeof keyQuery>, { keys }: KeysContext) {
  const store = ensure(keys)
  const { name } = call.query
  const asking = requestScope.getStore()?.key.hash
  const all = await store.list()
  if (all.some((key) => key.name === name && key.hash === asking)) {
    throw invalidField('name', `${name} is this request's key; another admin's can revoke it`)
  }
  await store.remove(name)
  tellLog(call, 'an API key was revoked', { name })
  return { success: true, data: { revoked: name } }
}

/** The limits in a body under their names in {@link ApiKey}; absent ones are left out. */
function limitsOf<Limit extends number | null>(
  body: Readonly<Partial<Record<keyof z.infer<typeof limitsSchema>, Limit | undefined>>>,
) {
  return defined({
    requestsPerMinute: body.requests_per_minute,
    tokensPerMinute: body.tokens_per_minute,
    tokensPerMonth: body.tokens_per_month,
  })
}

function tellLog(call: Call, message: string, about: JsonObject): void {
  const by = call.keyName ?? null
  call.logger.warn({ ...about, by }, message)
}

const describe = (key: Omit<ApiKey, 'hash'>) => ({
  name: key.name,
  tenant: key.tenant,
  role: key.role,
  requests_per_minute: key.requestsPerMinute ?? null,
  tokens_per_minute: key.tokensPerMinute ?? null,
  tokens_per_month: key.tokensPerMonth ?? null,
})

function ensure(store: KeyStore | undefined): KeyStore {
  const now =
    requestScope.getStore() === undefined
      ? 'This server asks for no keys, so whoever reaches it may do everything'
      : 'This server has the one key of --api-key and no file of others'
  const how = '`cllm keys add NAME --role admin --api-keys FILE` makes a file'
  return orUnsupported(store, `${now}. ${how}, and \`cllm serve --api-keys FILE\` takes its keys.`)
}

/** The routes of API keys. */
export const keyRoutes: readonly Route<KeysContext>[] = [
  get('/admin/keys', 'admin', 'The API keys, without their secrets', getKeys),
  post('/admin/keys', 'admin', 'Make an API key, which is shown once', addKey, strict(keySchema)),
  patch(
    '/admin/keys/:name',
    'admin',
    'Change the limits of an API key',
    limitKey,
    strict(limitsSchema),
  ),
  del('/admin/keys', 'admin', 'Revoke an API key', removeKey, { query: keyQuery }),
]
