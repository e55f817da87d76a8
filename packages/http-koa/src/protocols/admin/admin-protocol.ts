import { defined } from '@cllm/core'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import type { Answer, Call, CallOf, Route } from '../../routes/route.js'
import { bindRoutes, del, get, patch, post, put } from '../../routes/route.js'
import {
  type LogLevelControl,
  defineProtocol,
  KEY_STORE,
  LOG_LEVEL,
} from '../../routes/define-protocol.js'
import type { KeyStore } from '../../security/api-key.js'
import {
  deleteCache,
  getCache,
  getPrograms,
  getRecorder,
  getScheduler,
  putScheduler,
  schedulerSchema,
  warmCache,
  warmSchema,
} from './engine.js'
import type { KeysContext } from './keys.js'
import { addKey, getKeys, keyQuery, keySchema, limitKey, limitsSchema, removeKey } from './keys.js'
import { getLive, type LiveContext } from './live.js'
import { orUnsupported } from '../../request/refusals.js'
import { z } from 'zod'

/** What the handlers of the admin protocol share. */
interface AdminContext extends KeysContext, LiveContext {
  readonly log: LogLevelControl | undefined
}

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

/** The body of `PUT /admin/log-level`. */
const logLevelSchema = z.object({ level: z.enum(levels, `one of ${levels.join(', ')}`) })

/** `GET /admin/log-level` */
function getLogLevel(_call: Call, { log }: AdminContext): Answer {
  return { success: true, data: { level: ensure(log).level } }
}

/** `PUT /admin/log-level`: sets the log level from now on. */
async function putLogLevel(call: CallOf<typeof logLevelSchema>, admin: AdminContext) {
  const { level } = call.fields
  ensure(admin.log).level = level
  call.logger.warn({ level }, 'the log level was changed')
  return getLogLevel(call, admin)
}

const ensure = (control: LogLevelControl | undefined): LogLevelControl =>
  orUnsupported(control, 'The logger of this server has no level that can be changed')

/** Settings of {@link adminProtocol}. */
export interface AdminProtocolOptions {
  /** The logger whose level can be changed; default: none. */
  readonly log?: LogLevelControl
  /** The keys that can be changed; default: none. */
  readonly keys?: KeyStore
}

const routes: readonly Route<AdminContext>[] = [
  get('/admin/scheduler', 'admin', 'The active policy and the available ones', getScheduler, {
    query: modelQuery,
  }),
  put('/admin/scheduler', 'admin', 'Swap the policy', putScheduler, {
    query: modelQuery,
    body: schedulerSchema,
    reading: 'strict',
  }),
  get('/admin/cache', 'admin', 'What is kept of slots in RAM and in files', getCache, {
    query: modelQuery,
  }),
  post('/admin/cache', 'admin', 'Compute a prompt ahead and keep it', warmCache, {
    query: modelQuery,
    body: warmSchema,
    reading: 'exact',
  }),
  del('/admin/cache', 'admin', 'Drop all of it', deleteCache, { query: modelQuery }),
  get('/admin/programs', 'admin', 'Agents and conversations: calls, tokens, pauses', getPrograms, {
    query: modelQuery,
  }),
  get('/admin/log-level', 'admin', 'The log level', getLogLevel),
  put('/admin/log-level', 'admin', 'Change the log level', putLogLevel, {
    body: logLevelSchema,
    reading: 'exact',
  }),
  get('/admin/keys', 'admin', 'The API keys, without their secrets', getKeys),
  post('/admin/keys', 'admin', 'Make an API key, which is shown once', addKey, {
    body: keySchema,
    reading: 'strict',
  }),
  patch('/admin/keys/:name', 'admin', 'Change the limits of an API key', limitKey, {
    body: limitsSchema,
    reading: 'strict',
  }),
  del('/admin/keys', 'admin', 'Revoke an API key', removeKey, { query: keyQuery }),
  get(
    '/admin/recorder',
    'admin',
    'The requests and steps of the last minutes, without any text',
    getRecorder,
    { query: modelQuery },
  ),
  get('/admin/live', 'admin', 'What goes on now, once or as server-sent events', getLive, {
    query: modelQuery,
    answers: ['application/json', 'text/event-stream'],
    isQuiet: true,
  }),
]

/**
 * The routes that change a running server or show its present and recent past; see `docs/api.md`. Without API
 * keys every client that reaches them can use them, so expose them to operators only.
 */
export function adminProtocol({ log, keys }: AdminProtocolOptions = {}): KoaProtocol {
  return {
    name: 'admin',
    routes: bindRoutes(routes, { log, keys, feeds: new Map() }),
    under: ['/admin'],
  }
}

/** {@link adminProtocol} by its name. */
export const admin = defineProtocol({
  name: 'admin',
  doc: 'Shows and changes a running server: policy, log level, keys, saved states, flight recorder, under `/admin`.',
  create: (_options, services) =>
    adminProtocol(defined({ log: services.get(LOG_LEVEL), keys: services.get(KEY_STORE) })),
})
