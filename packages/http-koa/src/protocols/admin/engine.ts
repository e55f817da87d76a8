import { CllmError, defined } from '@cllm/core'
import type { EngineClient, EngineDirectory, PolicySetting, SchedulerInfo } from '@cllm/core'
import { z } from 'zod'
import { del, exact, get, post, put, strict } from '../../routes/route.js'
import type { Answer, Call, Route } from '../../routes/route.js'
import {
  engineInMemory,
  loadedEngine,
  type ModelQuery,
  modelQuery,
  neverLoaded,
} from '../../engines/model-queries.js'
import { boolean, list, name, object } from '../../fields/fields.js'
import { collect, startGeneration, tenantOf } from '../../request/generation.js'
import { expectedField } from '../../request/refusals.js'
import { sum } from '../../request/usage.js'

/** The body of `PUT /admin/scheduler`. */
const schedulerSchema = z.object({
  policy: z.string('the name of a policy'),
  options: object.optional(),
})

/**
 * `GET /admin/scheduler`: the active policy and the available ones. For an unloaded model, the policy that its
 * next engine starts with.
 */
async function getScheduler(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { model } = call.query
  const directory = call.engines
  const engine = engineInMemory(directory, model)
  if (engine !== undefined) return await shown(await engine.getScheduler(), directory, engine)
  const { scheduler } = directory.status(model)
  if (scheduler === undefined) throw neverLoaded(directory, model)
  return await shown(scheduler, directory)
}

/** `PUT /admin/scheduler`: changes the policy from the next step on; no request is lost or restarted. */
async function putScheduler(call: Call<z.output<typeof schedulerSchema>, ModelQuery>) {
  const { policy, options } = call.fields
  const { client: engine } = call.open(call.query.model)
  const info = await engine.setScheduler(policy, options)
  call.logger.info({ policy, options: info.options }, 'the policy was swapped')
  return await shown(info, call.engines, engine)
}

type Info = PolicySetting & Partial<SchedulerInfo>

async function shown(info: Info, { loading }: EngineDirectory, engine?: EngineClient) {
  const { policy, options, fallback = null, available } = info
  const { policyFaults = 0 } = (await engine?.statistics()) ?? {}
  const model_scheduler = loading?.scheduler ?? null
  const data = { policy, options, fallback, policyFaults, model_scheduler, available }
  return { success: true, data }
}

/** `GET /admin/cache`: the saved states of slots in RAM and in files, without any text. */
async function getCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const engine = loadedEngine(call.engines, call.query.model)
  const [{ cache = {} }, states] = await Promise.all([engine.statistics(), engine.cache('list')])
  return { success: true, data: { tiers: cache, states } }
}

const message = z.object({ role: z.string('a role'), content: z.string('a text') })

/** The body of `POST /admin/cache`. */
const warmSchema = z.object({
  prompt: z.string('a text').optional(),
  messages: list(message, 'a list of messages').optional(),
  pin: boolean.optional(),
  tenant: name.optional(),
})

/**
 * `GET /admin/programs`: the programs with recent requests, the latest one first, with their shares of the
 * computed tokens.
 */
async function getPrograms(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const list = await loadedEngine(call.engines, call.query.model).programs()
  const all = sum(list.map(({ servedTokens }) => servedTokens))
  const programs = list.map((program) => {
    return { ...program, share: all > 0 ? program.servedTokens / all : 0 }
  })
  return { success: true, data: { programs } }
}

/**
 * `POST /admin/cache`: computes a prompt, such as the system prompt of an application, before the first request
 * with it. With `pin`, the default, its state is saved and never evicted for others. If tenants share no
 * prefixes, it is for one `tenant`; default: the tenant in the header, or of the admin's key.
 */
async function warmCache(call: Call<z.output<typeof warmSchema>, ModelQuery>) {
  const { prompt: text, messages, pin = true, ...more } = call.fields
  const tenant = more.tenant ?? tenantOf(call)
  if ((text === undefined) === (messages === undefined)) {
    throw expectedField('prompt', 'either a prompt or messages')
  }
  const { client } = call.open(call.query.model)
  const { cache } = await client.statistics()
  if (pin && cache === undefined) {
    throw new CllmError('unsupported', 'no states of slots are saved: --cache-ram is 0')
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

/** `DELETE /admin/cache`: drops all saved states. */
async function deleteCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const engine = loadedEngine(call.engines, call.query.model)
  const dropped = await engine.cache('drop')
  return { success: true, data: { dropped: dropped.length } }
}

const ofModel = { query: modelQuery }

/** The routes of an engine's policy, cache and programs. */
export const engineRoutes: readonly Route<unknown>[] = [
  get(
    '/admin/scheduler',
    'admin',
    'The active policy and the available ones',
    getScheduler,
    ofModel,
  ),
  put('/admin/scheduler', 'admin', 'Swap the policy', putScheduler, {
    ...ofModel,
    ...strict(schedulerSchema),
  }),
  get('/admin/cache', 'admin', 'The saved states of slots, in RAM and in files', getCache, ofModel),
  post('/admin/cache', 'admin', 'Compute a prompt ahead and keep it', warmCache, {
    ...ofModel,
    ...exact(warmSchema),
  }),
  del('/admin/cache', 'admin', 'Drop all saved states', deleteCache, ofModel),
  get(
    '/admin/programs',
    'admin',
    'Agents and conversations: calls, tokens, pauses',
    getPrograms,
    ofModel,
  ),
]
