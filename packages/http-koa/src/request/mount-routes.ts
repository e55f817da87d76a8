import type { EngineDirectory } from '@cllm/core'
import type { KoaContext, KoaRouter } from '../koa-context.js'
import { leaseEngines } from '../models/lease-engines.js'
import type { HandledRoute } from './api-route.js'

/**
 * Adds routes to a router. The models that a handler opens in its context's `directory` stay in
 * memory until its answer has gone out.
 */
export function mountRoutes<Context extends object>(
  router: KoaRouter,
  routes: readonly HandledRoute<Context>[],
  context: Context,
): void {
  for (const { method, path, handle } of routes) {
    router[method](path, (ctx) => handle(ctx, withLease(ctx, context)))
  }
}

function withLease<Context extends object>(ctx: KoaContext, context: Context): Context {
  const { directory } = context as { readonly directory?: EngineDirectory }
  return directory === undefined ? context : { ...context, directory: leaseEngines(directory, ctx) }
}
