import type { KoaProtocol } from '../../routes/koa-context.js'
import { modelQuery } from '../../engines/model-queries.js'
import { bindRoutes, type Route, route } from '../../routes/route.js'
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

const routes: readonly Route<AdminContext>[] = [
  route({
    method: 'get',
    path: '/admin/scheduler',
    access: 'admin',
    summary: 'The active policy and the available ones',
    query: modelQuery,
    handle: getScheduler,
  }),
  route({
    method: 'put',
    path: '/admin/scheduler',
    access: 'admin',
    summary: 'Swap the policy',
    query: modelQuery,
    body: schedulerSchema,
    reading: 'strict',
    handle: putScheduler,
  }),
  route({
    method: 'get',
    path: '/admin/cache',
    access: 'admin',
    summary: 'What is kept of slots in RAM and in files',
    query: modelQuery,
    handle: getCache,
  }),
  route({
    method: 'post',
    path: '/admin/cache',
    access: 'admin',
    summary: 'Compute a prompt ahead and keep it',
    query: modelQuery,
    body: warmSchema,
    reading: 'exact',
    handle: warmCache,
  }),
  route({
    method: 'delete',
    path: '/admin/cache',
    access: 'admin',
    summary: 'Drop all of it',
    query: modelQuery,
    handle: deleteCache,
  }),
  route({
    method: 'get',
    path: '/admin/log-level',
    access: 'admin',
    summary: 'The log level',
    handle: getLogLevel,
  }),
  route({
    method: 'put',
    path: '/admin/log-level',
    access: 'admin',
    summary: 'Change the log level',
    body: logLevelSchema,
    reading: 'exact',
    handle: putLogLevel,
  }),
  route({
    method: 'get',
    path: '/admin/keys',
    access: 'admin',
    summary: 'The API keys, without their secrets',
    handle: getKeys,
  }),
  route({
    method: 'post',
    path: '/admin/keys',
    access: 'admin',
    summary: 'Make an API key, which is shown once',
    body: keySchema,
    reading: 'strict',
    handle: addKey,
  }),
  route({
    method: 'patch',
    path: '/admin/keys/:name',
    access: 'admin',
    summary: 'Change the limits of an API key',
    body: limitsSchema,
    reading: 'strict',
    handle: limitKey,
  }),
  route({
    method: 'delete',
    path: '/admin/keys',
    access: 'admin',
    summary: 'Revoke an API key',
    query: keyQuery,
    handle: removeKey,
  }),
  route({
    method: 'get',
    path: '/admin/recorder',
    access: 'admin',
    summary: 'The requests and steps of the last minutes, without any text',
    query: modelQuery,
    handle: getRecorder,
  }),
  route({
    method: 'get',
    path: '/admin/live',
    access: 'admin',
    summary: 'What goes on now, once or as server-sent events',
    query: modelQuery,
    answers: ['application/json', 'text/event-stream'],
    handle: getLive,
  }),
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
    routes: bindRoutes(routes, { log, keys, feeds: new Map() }),
    under: ['/admin'],
  }
}

/** {@link adminProtocol} by its name. */
export const admin = defineProtocol({
  name: 'admin',
  doc: 'Shows and changes a running server: policy, log level, keys, saved states, flight recorder, under `/admin`.',
  create: (_options, { log, keys }) =>
    adminProtocol({ ...(log && { log }), ...(keys && { keys }) }),
})
