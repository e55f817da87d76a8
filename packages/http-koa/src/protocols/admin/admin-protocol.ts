import { defined } from '@cllm/core'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { bindRoutes, exact, get, put } from '../../routes/route.js'
import type { Route, Answer, Call, CallOf } from '../../routes/route.js'
import { defineProtocol, KEY_STORE, LOG_LEVEL } from '../../routes/define-protocol.js'
import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { KeyStore } from '../../security/api-key.js'
import { engineRoutes } from './engine.js'
import { keyRoutes, type KeysContext } from './keys.js'
import { liveRoutes, type LiveContext } from './live.js'
import { orUnsupported } from '../../request/refusals.js'
import { z } from 'zod'

/** The context of the admin protocol's handlers. */
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

/** `PUT /admin/log-level`: changes the log level at once. */
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
  ...engineRoutes,
  get('/admin/log-level', 'admin', 'The log level', getLogLevel),
  put('/admin/log-level', 'admin', 'Change the log level', putLogLevel, exact(logLevelSchema)),
  ...keyRoutes,
  ...liveRoutes,
]

/**
 * The routes that change a running server or show its present state and recent past; see `docs/api.md`. Without API
 * keys every client that reaches them can use them, so expose them to operators only.
 */
export function adminProtocol({ log, keys }: AdminProtocolOptions = {}): KoaProtocol {
  return {
    name: 'admin',
    routes: bindRoutes(routes, { log, keys, feeds: new Map() }),
    under: ['/admin'],
  }
}

/** {@link adminProtocol} as a definition. */
export const admin = defineProtocol({
  name: 'admin',
  doc: 'Shows and changes a running server: policy, log level, keys, saved states, flight recorder, under `/admin`.',
  create: (_options, services) =>
    adminProtocol(defined({ log: services.get(LOG_LEVEL), keys: services.get(KEY_STORE) })),
})
