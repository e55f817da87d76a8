import { CllmError, type EngineClient, type SchedulerInfo } from '@cllm/core'
import { z } from 'zod'
import type { KoaContext } from '../koa-context.js'
import { parseFields } from '../parse-fields.js'
import { readJsonBody } from '../read-json-body.js'
import { object } from '../request/fields.js'
import type { AdminContext } from './admin-context.js'
import { engineOf } from './engine-of.js'

/** The body of `PUT /admin/scheduler`. */
export const schedulerSchema = z.object({
  policy: z.string('the name of a policy'),
  options: object.optional(),
})

/** `GET /admin/scheduler`: the policy in force and those that could be. */
export async function getScheduler(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const engine = engineOf(ctx, directory)
  await answer(ctx, engine, await engine.getScheduler())
}

/** `PUT /admin/scheduler`: another policy from the next step on; nothing is lost or restarted. */
export async function putScheduler(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const body = await readJsonBody(ctx)
  const unknown = Object.keys(body).find((field) => !Object.hasOwn(schedulerSchema.shape, field))
  if (unknown !== undefined) {
    const fields = Object.keys(schedulerSchema.shape).join(' and ')
    const message = `${unknown}: expected the fields ${fields} only`
    throw new CllmError('invalid_request', message, { details: { field: unknown } })
  }
  const { policy, options } = parseFields(schedulerSchema, body)
  const engine = engineOf(ctx, directory)
  const info = await engine.setScheduler(policy, options)
  ctx.state.transport.logger.info({ policy, options: info.options }, 'the policy was swapped')
  await answer(ctx, engine, info)
}

async function answer(ctx: KoaContext, engine: EngineClient, info: SchedulerInfo): Promise<void> {
  const { policy, options, fallback, available } = info
  const { policyFaults } = await engine.statistics()
  const data = { policy, options, fallback: fallback ?? null, policyFaults, available }
  ctx.body = { success: true, data }
}
