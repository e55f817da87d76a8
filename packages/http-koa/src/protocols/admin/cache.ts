import { CllmError, defined } from '@cllm/core'
import { z } from 'zod'
import { engineInMemory, type ModelQuery, neverLoaded } from '../../engines/model-queries.js'
import { boolean, list, name } from '../../fields/fields.js'
import { startGeneration } from '../../request/generation.js'
import { expectedField } from '../../request/refusals.js'
import { tenantOf } from '../../request/request-headers.js'
import type { Answer, Call } from '../../routes/call.js'

/** `GET /admin/cache`: what is kept of slots in RAM and in files, without any text. */
export async function getCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory, query } = call
  const { model } = query
  const engine = engineInMemory(directory, model)
  if (engine === undefined) throw neverLoaded(directory, model)
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
 * `POST /admin/cache`: computes a prompt, such as the system prompt of an application, before anyone asks
 * with it. With `pin`, the default, it is saved and dropped for no other. Where tenants share no prefixes, it
 * is for one `tenant`: default that of the header, or of the admin's key.
 */
export async function warmCache(
  call: Call<z.output<typeof warmSchema>, ModelQuery>,
): Promise<Answer> {
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
  const { events, promptTokens } = await startGeneration(call, client, request)
  let cachedTokens = 0
  for await (const event of events) if (event.type === 'end') ({ cachedTokens } = event.usage)
  return {
    success: true,
    data: { prompt_tokens: promptTokens, cached_tokens: cachedTokens },
  }
}

/** `DELETE /admin/cache`: drops all of it. */
export async function deleteCache(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory, query } = call
  const { model } = query
  const engine = engineInMemory(directory, model)
  if (engine === undefined) throw neverLoaded(directory, model)
  const dropped = await engine.cache('drop')
  return { success: true, data: { dropped: dropped.length } }
}
