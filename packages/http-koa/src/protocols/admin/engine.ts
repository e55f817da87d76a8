import type { EngineClient, EngineDirectory, PolicySetting, SchedulerInfo } from '@cllm/core'
import { CllmError, defined } from '@cllm/core'
import { z } from 'zod'
import type { Answer, Call } from '../../routes/route.js'
import type { ModelQuery } from '../../engines/model-queries.js'
import { engineInMemory, loadedEngine, neverLoaded } from '../../engines/model-queries.js'
import { boolean, list, name, object } from '../../fields/fields.js'
import { collect, startGeneration, tenantOf } from '../../request/generation.js'
import { expectedField, orUnsupported } from '../../request/refusals.js'
import { sum } from '../../request/usage.js'

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
  const { model } = call.query
  const directory = call.engines
  const engine = engineInMemory(directory, model)
  if (engine !== undefined) return await answer(engine, await engine.getScheduler(), directory)
  const { scheduler } = directory.status(model)
  if (scheduler === undefined) throw neverLoaded(directory, model)
  return { success: true, data: describe(scheduler, 0, directory) }
}

/** `PUT /admin/scheduler`: another policy from the next step on; nothing is lost or restarted. */
export async function putScheduler(call: Call<z.output<typeof schedulerSchema>, ModelQuery>) {
  const { policy, options } = call.fields
  const { client: engine } = call.open(call.query.model)
  const info = await engine.setScheduler(policy, options)
  call.logger.info({ policy, options: info.options }, 'the policy was swapped')
  return await answer(engine, info, call.engines)
}

type Info = PolicySetting & Partial<SchedulerInfo>

async function answer(engine: EngineClient, info: Info, directory: EngineDirectory) {
  const { policyFaults } = await engine.statistics()
  return { success: true, data: describe(info, policyFaults, directory) }
}

const describe = (
  { policy, options, fallback, available }: Info,
  policyFaults: number,
  { loading }: EngineDirectory,
) => ({
  policy,
  options,
  fallback: fallback ?? null,
  policyFaults,
  model_scheduler: loading?.scheduler ?? null,
  available,
})

/**
 * `GET /admin/recorder`: the flight recorder's last minutes, without any text. For a model that was
 * unloaded, the state when it was unloaded.
 */
export async function getRecorder(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { model } = call.query
  const directory = call.engines
  const engine = engineInMemory(directory, model)
  const { recording: kept, info } = directory.status(model)
  if (engine === undefined && kept === undefined && info === undefined) {
    throw neverLoaded(directory, model)
  }
  const recording = engine === undefined ? kept : await engine.recording?.()
  return orUnsupported(recording, 'The engine of this server has no flight recorder')
}

/** `GET /admin/cache`: what is kept of slots in RAM and in files, without any text. */
export async function getCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const engine = loadedEngine(call.engines, call.query.model)
  const [{ cache = {} }, states] = await Promise.all([engine.statistics(), engine.cache('list')])
  return { success: true, data: { tiers: cache, states } }
}

const message = z.object({ role: z.string('a role'), content: z.string('a text') })

/** The body of `POST /admin/cache`. */
export const warmSchema = z.object({
  prompt: z.string('a text').optional(),
  messages: list(message, 'a list of messages').optional(),
  pin: boolean.optional(),
  tenant: name.optional(),
})

/**
 * `GET /admin/programs`: the programs whose requests came lately, the one that went on last first, with their
 * shares of the tokens that were computed.
 */
export async function getPrograms(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const list = await loadedEngine(call.engines, call.query.model).programs()
  const all = sum(list.map(({ servedTokens }) => servedTokens))
  const programs = list.map((program) => {
    return { ...program, share: all > 0 ? program.servedTokens / all : 0 }
  })
  return { success: true, data: { programs } }
}

/**
 * `POST /admin/cache`: computes a prompt, such as the system prompt of an application, before anyone asks
 * with it. With `pin`, the default, it is saved and dropped for no other. Where tenants share no prefixes, it
 * is for one `tenant`: default that of the header, or of the admin's key.
 */
export async function warmCache(call: Call<z.output<typeof warmSchema>, ModelQuery>) {
  const { prompt: text, messages, pin = true, ...more } = call.fields
  const tenant = more.tenant ?? tenantOf(call)
  if ((text === undefined) === (messages === undefined)) {
    throw expectedField('prompt', 'either a prompt or messages')
  }
  const { client } = call.open(call.query.model)
  const { cache } = await client.statistics()
  if (pin && cache === undefined) {
    throw new CllmError('unsupported', 'nothing is kept behind the slots: --cache-ram is 0')
  }
  const prompt = messages === undefined ? { text: text ?? '' } : { messages }
  const request = { prompt, maxTokens: 1, pin, priority: -1, ...defined({ tenant }) }
  const generation = await startGeneration(call, client, request)
  const { usage } = (await collect(generation)).end
  return {
    success: true,
    data: { prompt_tokens: generation.promptTokens, cached_tokens: usage.cachedTokens },
  }
}

/** `DELETE /admin/cache`: drops all of it. */
export async function deleteCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const engine = loadedEngine(call.engines, call.query.model)
  const dropped = await engine.cache('drop')
  return { success: true, data: { dropped: dropped.length } }
}
