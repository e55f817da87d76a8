import type { EngineDirectory } from '@cllm/core'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { getScheduler, putScheduler } from './scheduler.js'

/**
 * The routes that change a running server: `GET` and `PUT /admin/scheduler`; see `docs/api.md`.
 * Whoever can reach them can use them, so serve them where only operators can.
 */
export function adminProtocol(): KoaProtocol {
  return {
    name: 'admin',
    mount(router: KoaRouter, directory: EngineDirectory) {
      router.get('/admin/scheduler', (ctx) => getScheduler(ctx, directory))
      router.put('/admin/scheduler', (ctx) => putScheduler(ctx, directory))
    },
  }
}
