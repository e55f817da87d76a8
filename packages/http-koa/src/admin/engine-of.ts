import type { EngineClient, EngineDirectory } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'

/** The default engine, or that of the query's `model`. */
export function engineOf(ctx: KoaContext, directory: EngineDirectory): EngineClient {
  const { model } = ctx.query
  return directory.open(Array.isArray(model) ? model[0] : model)
}
