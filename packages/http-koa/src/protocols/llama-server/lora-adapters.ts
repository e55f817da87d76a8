import { type AdapterChoice, type AdapterInfo, CllmError } from '@cllm/core'
import { z } from 'zod'
import { readJsonList } from '../../body/read-json-body.js'
import { engineInMemory, modelOf } from '../../engines/model-queries.js'
import { adapterChoices } from '../../fields/adapters-field.js'
import { parseFields } from '../../fields/parse-fields.js'
import type { KoaContext } from '../../routes/koa-context.js'
import type { LlamaServerContext } from './llama-server-context.js'

/** `GET /lora-adapters`: the adapters, with what is applied to requests that name none. Never loads a model. */
export async function loraAdapters(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const model = modelOf(ctx)
  const { directory } = llama
  const engine = engineInMemory(directory, model)
  const all = engine ? await engine.adapters() : (directory.status(model).info?.adapters ?? [])
  const defaults = directory.defaultAdapters?.(model) ?? []
  ctx.body = all.map((info) => ({
    id: info.id,
    name: info.name,
    path: info.path,
    scale: scaleIn(defaults, info),
  }))
}

/** `POST /lora-adapters`: what is applied to requests that name no adapters; others get 0. */
export async function setLoraAdapters(ctx: KoaContext, llama: LlamaServerContext): Promise<void> {
  const { adapters } = parseFields(schema, { adapters: await readJsonList(ctx) })
  const { directory } = llama
  if (directory.setDefaultAdapters === undefined) {
    throw new CllmError('unsupported', 'This server applies no adapters to all requests')
  }
  directory.setDefaultAdapters(adapters, modelOf(ctx))
  ctx.body = { success: true }
}

const schema = z.object({ adapters: adapterChoices })

function scaleIn(choices: readonly AdapterChoice[], { id, name, scale }: AdapterInfo): number {
  const chosen = choices.find(({ adapter }) => adapter === id || adapter === name)
  return chosen === undefined ? 0 : (chosen.scale ?? scale)
}
