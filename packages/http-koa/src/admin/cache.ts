import type { KoaContext } from '../routes/koa-context.js'
import { engineInMemory, modelOf, neverLoaded } from '../engines/model-queries.js'
import type { AdminContext } from './admin-protocol.js'

/** `GET /admin/cache`: what is kept of slots in RAM and in files, without any text. */
export async function getCache(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const model = modelOf(ctx)
  const engine = engineInMemory(directory, model)
  if (engine === undefined) throw neverLoaded(directory, model)
  const [{ cache = {} }, states] = await Promise.all([engine.statistics(), engine.cache('list')])
  ctx.body = { success: true, data: { tiers: cache, states } }
}

/** `DELETE /admin/cache`: drops all of it. */
export async function deleteCache(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const model = modelOf(ctx)
  const engine = engineInMemory(directory, model)
  if (engine === undefined) throw neverLoaded(directory, model)
  const dropped = await engine.cache('drop')
  ctx.body = { success: true, data: { dropped: dropped.length } }
}
