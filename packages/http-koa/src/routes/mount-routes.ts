import type { EngineDirectory } from '@cllm/core'
import type { KoaContext, KoaRouter } from './koa-context.js'
import { leaseEngines } from '../engines/lease-engines.js'
import type { HandledRoute } from './api-route.js'

/**
 * Adds routes to a router. A model that a handler opens through its context's `directory` stays in
 * memory until the answer is sent.
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
