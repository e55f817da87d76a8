import type { EngineDirectory } from '@cllm/core'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { getLogLevel, type LogLevelControl, putLogLevel } from './log-level.js'
import { getScheduler, putScheduler } from './scheduler.js'

/** Settings of {@link adminProtocol}. */
export interface AdminProtocolOptions {
  /** The logger whose level can be changed; default: none. */
  readonly log?: LogLevelControl
}

/**
 * The routes that change a running server: `GET` and `PUT` of `/admin/scheduler` and
 * `/admin/log-level`; see `docs/api.md`.
 * Whoever can reach them can use them, so serve them where only operators can.
 */
export function adminProtocol({ log }: AdminProtocolOptions = {}): KoaProtocol {
  return {
    name: 'admin',
    mount(router: KoaRouter, directory: EngineDirectory) {
      router.get('/admin/scheduler', (ctx) => getScheduler(ctx, directory))
      router.put('/admin/scheduler', (ctx) => putScheduler(ctx, directory))
      router.get('/admin/log-level', (ctx) => getLogLevel(ctx, log))
      router.put('/admin/log-level', (ctx) => putLogLevel(ctx, log))
    },
  }
}
