import type { EngineClient, SchedulerInfo } from '@cllm/core'
import { z } from 'zod'
import type { Answer, Call } from '../../routes/call.js'
import { engineInMemory, type ModelQuery, neverLoaded } from '../../engines/model-queries.js'
import { object } from '../../fields/fields.js'

/** The body of `PUT /admin/scheduler`. */
export const schedulerSchema = z.object({
  policy: z.string('the name of a policy'),
  options: object.optional(),
})

/**
 * `GET /admin/scheduler`: the active policy and the available ones. For a model that was unloaded, the
 * policy that its next engine starts with.
 */
export async function getScheduler(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory, query } = call
  const { model } = query
  const engine = engineInMemory(directory, model)
  if (engine !== undefined) return await answer(engine, await engine.getScheduler())
  const { scheduler } = directory.status(model)
  if (scheduler === undefined) throw neverLoaded(directory, model)
  return { success: true, data: describe(scheduler, 0) }
}

/** `PUT /admin/scheduler`: another policy from the next step on; nothing is lost or restarted. */
export async function putScheduler(
  call: Call<z.output<typeof schedulerSchema>, ModelQuery>,
): Promise<Answer> {
  const { policy, options } = call.fields
  const { client: engine } = call.open(call.query.model)
  const info = await engine.setScheduler(policy, options)
  call.logger.info({ policy, options: info.options }, 'the policy was swapped')
  return await answer(engine, info)
}

async function answer(engine: EngineClient, info: SchedulerInfo): Promise<Answer> {
  const { policyFaults } = await engine.statistics()
  return { success: true, data: describe(info, policyFaults) }
}

const describe = (
  { policy, options, fallback, available }: SchedulerInfo,
  policyFaults: number,
) => ({ policy, options, fallback: fallback ?? null, policyFaults, available })
