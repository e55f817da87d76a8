import type { EngineClient, EngineDirectory } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import { modelOf } from '../models/look-at-models.js'

/** The default engine, or that of the query's `model`. */
export function engineOf(ctx: KoaContext, directory: EngineDirectory): EngineClient {
  return directory.open(modelOf(ctx))
}
