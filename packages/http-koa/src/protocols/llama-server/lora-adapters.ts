import { type AdapterChoice, type AdapterInfo, CllmError } from '@cllm/core'
import { z } from 'zod'
import { engineInMemory, type ModelQuery } from '../../engines/model-queries.js'
import { adapterChoices } from '../../fields/adapters-field.js'
import { parseFields } from '../../fields/fields.js'
import type { Answer, Call } from '../../routes/call.js'

/** `GET /lora-adapters`: the adapters, with what is applied to requests that name none. Never loads a model. */
export async function loraAdapters(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory } = call
  const { model } = call.query
  const engine = engineInMemory(directory, model)
  const all = engine ? await engine.adapters() : (directory.status(model).info?.adapters ?? [])
  const defaults = directory.defaultAdapters?.(model) ?? []
  return all.map((info) => ({
    id: info.id,
    name: info.name,
    path: info.path,
    scale: scaleIn(defaults, info),
  }))
}

/** `POST /lora-adapters`: what is applied to requests that name no adapters; others get 0. */
export async function setLoraAdapters(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { adapters } = parseFields(schema, { adapters: await call.body.list() })
  const { engines: directory } = call
  if (directory.setDefaultAdapters === undefined) {
    throw new CllmError('unsupported', 'This server applies no adapters to all requests')
  }
  directory.setDefaultAdapters(adapters, call.query.model)
  return { success: true }
}

const schema = z.object({ adapters: adapterChoices })

function scaleIn(choices: readonly AdapterChoice[], { id, name, scale }: AdapterInfo): number {
  const chosen = choices.find(({ adapter }) => adapter === id || adapter === name)
  return chosen === undefined ? 0 : (chosen.scale ?? scale)
}
