import type { EngineDirectory } from '@cllm/core'
import type { KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import { defineProtocol, type LogLevelControl } from '../../routes/define-protocol.js'
import type { KeyStore } from '../../security/key-store.js'
import type { AdminContext } from './admin-context.js'
import { deleteCache, getCache, warmCache, warmSchema } from './cache.js'
import { addKey, getKeys, keyQuery, keySchema, limitKey, limitsSchema, removeKey } from './keys.js'
import { getLogLevel, logLevelSchema, putLogLevel } from './log-level.js'
import { getLive } from './live.js'
import { getRecorder } from './recorder.js'
import { getScheduler, putScheduler, schedulerSchema } from './scheduler.js'

/** Settings of {@link adminProtocol}. */
export interface AdminProtocolOptions {
  /** The logger whose level can be changed; default: none. */
  readonly log?: LogLevelControl
  /** The keys that can be changed; default: none. */
  readonly keys?: KeyStore
}

const routes: readonly HandledRoute<AdminContext>[] = [
  {
    method: 'get',
    path: '/admin/scheduler',
    summary: 'The active policy and the available ones',
    query: modelQuery,
    handle: getScheduler,
  },
  {
    method: 'put',
    path: '/admin/scheduler',
    summary: 'Swap the policy',
    query: modelQuery,
    body: schedulerSchema,
    handle: putScheduler,
  },
  {
    method: 'get',
    path: '/admin/cache',
    summary: 'What is kept of slots in RAM and in files',
    query: modelQuery,
    handle: getCache,
  },
  {
    method: 'post',
    path: '/admin/cache',
    summary: 'Compute a prompt ahead and keep it',
    query: modelQuery,
    body: warmSchema,
    handle: warmCache,
  },
  {
    method: 'delete',
    path: '/admin/cache',
    summary: 'Drop all of it',
    query: modelQuery,
    handle: deleteCache,
  },
  {
    method: 'get',
    path: '/admin/log-level',
    summary: 'The log level',
    handle: getLogLevel,
  },
  {
    method: 'put',
    path: '/admin/log-level',
    summary: 'Change the log level',
    body: logLevelSchema,
    handle: putLogLevel,
  },
  {
    method: 'get',
    path: '/admin/keys',
    summary: 'The API keys, without their secrets',
    handle: getKeys,
  },
  {
    method: 'post',
    path: '/admin/keys',
    summary: 'Make an API key, which is shown once',
    body: keySchema,
    handle: addKey,
  },
  {
    method: 'patch',
    path: '/admin/keys/:name',
    summary: 'Change the limits of an API key',
    body: limitsSchema,
    handle: limitKey,
  },
  {
    method: 'delete',
    path: '/admin/keys',
    summary: 'Revoke an API key',
    query: keyQuery,
    handle: removeKey,
  },
  {
    method: 'get',
    path: '/admin/recorder',
    summary: 'The requests and steps of the last minutes, without any text',
    query: modelQuery,
    handle: getRecorder,
  },
  {
    method: 'get',
    path: '/admin/live',
    summary: 'What goes on now, once or as server-sent events',
    query: modelQuery,
    answers: ['application/json', 'text/event-stream'],
    handle: getLive,
  },
]

/**
 * The routes that change a running server or show its present and recent past: `GET` and `PUT` of
 * `/admin/scheduler` and `/admin/log-level`, `GET /admin/live` and `/admin/recorder`, `GET`, `POST` and `DELETE` of
 * `/admin/cache` and `/admin/keys`, `PATCH /admin/keys/{name}`; see `docs/api.md`. Without API
 * keys every client that reaches them can use them, so expose them to operators only.
 */
export function adminProtocol({ log, keys }: AdminProtocolOptions = {}): KoaProtocol {
  return {
    name: 'admin',
    routes,
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, { directory, log, keys, feeds: new Map() })
    },
  }
}

/** {@link adminProtocol} by its name. */
export const admin = defineProtocol({
  name: 'admin',
  doc: 'Shows and changes a running server: policy, log level, keys, saved states, flight recorder, under `/admin`.',
  create: (_options, { log, keys }) =>
    adminProtocol({ ...(log && { log }), ...(keys && { keys }) }),
})
