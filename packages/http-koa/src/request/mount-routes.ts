import type { KoaRouter } from '../koa-context.js'
import type { HandledRoute } from './api-route.js'

/** Adds routes to a router. */
export function mountRoutes<Context>(
  router: KoaRouter,
  routes: readonly HandledRoute<Context>[],
  context: Context,
): void {
  for (const { method, path, handle } of routes) {
    router[method](path, (ctx) => handle(ctx, context))
  }
}
