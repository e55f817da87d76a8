import type { EngineDirectory } from '@cllm/core'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { modelQuery } from '../models/look-at-models.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import type { AdminContext } from './admin-context.js'
import { getLogLevel, type LogLevelControl, logLevelSchema, putLogLevel } from './log-level.js'
import { getRecorder } from './recorder.js'
import { getScheduler, putScheduler, schedulerSchema } from './scheduler.js'

/** Settings of {@link adminProtocol}. */
export interface AdminProtocolOptions {
  /** The logger whose level can be changed; default: none. */
  readonly log?: LogLevelControl
}

const routes: readonly HandledRoute<AdminContext>[] = [
  {
    method: 'get',
    path: '/admin/scheduler',
    summary: 'The policy in force and those that could be',
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
    path: '/admin/log-level',
    summary: 'The least important lines that are logged',
    handle: getLogLevel,
  },
  {
    method: 'put',
    path: '/admin/log-level',
    summary: 'Log more, or less',
    body: logLevelSchema,
    handle: putLogLevel,
  },
  {
    method: 'get',
    path: '/admin/recorder',
    summary: 'What came in the last minutes and what the steps were, without any text',
    query: modelQuery,
    handle: getRecorder,
  },
]

/**
 * The routes that change a running server or show what it went through: `GET` and `PUT` of
 * `/admin/scheduler` and `/admin/log-level`, `GET /admin/recorder`; see `docs/api.md`.
 * Whoever can reach them can use them, so serve them where only operators can.
 */
export function adminProtocol({ log }: AdminProtocolOptions = {}): KoaProtocol {
  return {
    name: 'admin',
    routes,
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, { directory, log })
    },
  }
}
