import type { EngineClient, SchedulerInfo } from '@cllm/core'
import { z } from 'zod'
import type { KoaContext } from '../../routes/koa-context.js'
import { engineInMemory, modelOf, neverLoaded } from '../../engines/model-queries.js'
import { object } from '../../fields/fields.js'
import type { AdminContext } from './admin-context.js'
import { readStrictBody } from './strict-body.js'

/** The body of `PUT /admin/scheduler`. */
export const schedulerSchema = z.object({
  policy: z.string('the name of a policy'),
  options: object.optional(),
})

/**
 * `GET /admin/scheduler`: the active policy and the available ones. For a model that was unloaded, the
 * policy that its next engine starts with.
 */
export async function getScheduler(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const model = modelOf(ctx)
  const engine = engineInMemory(directory, model)
  if (engine !== undefined) return await answer(ctx, engine, await engine.getScheduler())
  const { scheduler } = directory.status(model)
  if (scheduler === undefined) throw neverLoaded(directory, model)
  ctx.body = { success: true, data: describe(scheduler, 0) }
}

/** `PUT /admin/scheduler`: another policy from the next step on; nothing is lost or restarted. */
export async function putScheduler(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const { policy, options } = await readStrictBody(ctx, schedulerSchema)
  const engine = directory.open(modelOf(ctx))
  const info = await engine.setScheduler(policy, options)
  ctx.state.transport.logger.info({ policy, options: info.options }, 'the policy was swapped')
  await answer(ctx, engine, info)
}

async function answer(ctx: KoaContext, engine: EngineClient, info: SchedulerInfo): Promise<void> {
  const { policyFaults } = await engine.statistics()
  ctx.body = { success: true, data: describe(info, policyFaults) }
}

const describe = (
  { policy, options, fallback, available }: SchedulerInfo,
  policyFaults: number,
) => ({ policy, options, fallback: fallback ?? null, policyFaults, available })
