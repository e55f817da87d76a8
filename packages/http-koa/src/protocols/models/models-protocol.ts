import { CllmError, type EngineDirectory, type ModelStatus } from '@cllm/core'
import { z } from 'zod'
import type { KoaContext, KoaProtocol, KoaRouter } from '../../routes/koa-context.js'
import { UnknownFields } from '../../fields/unknown-fields.js'
import { defineProtocol } from '../../routes/define-protocol.js'
import type { HandledRoute } from '../../routes/api-route.js'
import { mountRoutes } from '../../routes/mount-routes.js'
import { readFields } from '../../fields/read-fields.js'
import { keepAliveField } from '../../fields/keep-alive-field.js'
import {
  loadAdapter,
  loadAdapterSchema,
  unloadAdapter,
  unloadAdapterSchema,
} from './lora-adapters.js'
import { memory, memoryQuery } from './model-memory.js'
import type { ModelsContext, WaitingLoad } from './models-context.js'
import type { ModelStore } from '../../engines/model-store.js'

const model = z.string('the name of a model').min(1, 'the name of a model')
const loadSchema = z.object({ model, keep_alive: keepAliveField })
const unloadSchema = z.object({ model })

/** `GET /models`: every model with its state. */
function list(ctx: KoaContext, { directory }: ModelsContext): void {
  const adapted = (directory.adapted?.() ?? []).map(({ name }) => name)
  const names = [...directory.list(), ...adapted]
  const data = names.map((name) => describe(directory.status(name)))
  ctx.body = { success: true, object: 'list', data }
}

function describe(status: ModelStatus) {
  const { name, state, users, waiting, expiresAt, error, info, aliases = [], tags = [] } = status
  return {
    id: name,
    object: 'model',
    // with its own name, as llama-server has it
    aliases: [name, ...aliases],
    tags,
    status: { value: state, ...(error === undefined ? {} : { error: error.message }) },
    users,
    waiting,
    expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
    size_bytes: info?.model.sizeBytes ?? null,
  }
}

/** `POST /models/load`: answers once the model is in memory. */
async function load(ctx: KoaContext, models: ModelsContext): Promise<void> {
  const { directory, unknownFields, loads } = models
  const { model, keep_alive: keepAliveMs } = await readFields(ctx, loadSchema, unknownFields)
  const name = directory.nameOf(model)
  const ending = new AbortController()
  const waiting = { name, ending }
  loads.add(waiting)
  const until = ending.signal
  try {
    const options = { until, load: true, ...(keepAliveMs !== undefined && { keepAliveMs }) }
    await directory.open(model, options).info()
  } finally {
    loads.delete(waiting)
    ending.abort()
  }
  ctx.body = { success: true, data: describe(directory.status(model)) }
}

/**
 * `POST /models/unload`: answers once the model is out of memory; its requests finish first. A load
 * that no request waits for is ended.
 */
async function unload(ctx: KoaContext, models: ModelsContext): Promise<void> {
  const { directory, unknownFields, loads } = models
  const { model } = await readFields(ctx, unloadSchema, unknownFields)
  const name = directory.nameOf(model)
  const message = `The model ${name} was asked to leave memory while it was loaded`
  for (const { name: loading, ending } of loads) {
    if (loading === name) ending.abort(new CllmError('engine_unavailable', message))
  }
  await directory.unload(model)
  ctx.body = { success: true, data: describe(directory.status(model)) }
}

const routes: readonly HandledRoute<ModelsContext>[] = [
  { method: 'get', path: '/models', summary: 'The models and their states', handle: list },
  {
    method: 'get',
    path: '/models/memory',
    summary: 'How much memory a model would take',
    query: memoryQuery,
    handle: memory,
  },
  {
    method: 'post',
    path: '/models/load',
    summary: 'Load a model into memory',
    body: loadSchema,
    handle: load,
  },
  {
    method: 'post',
    path: '/models/unload',
    summary: 'Unload a model from memory',
    body: unloadSchema,
    handle: unload,
  },
  {
    method: 'post',
    path: '/v1/load_lora_adapter',
    summary: 'Load a LoRA adapter beside a model',
    body: loadAdapterSchema,
    answers: ['text/plain'],
    handle: loadAdapter,
  },
  {
    method: 'post',
    path: '/v1/unload_lora_adapter',
    summary: 'Unload a LoRA adapter',
    body: unloadAdapterSchema,
    answers: ['text/plain'],
    handle: unloadAdapter,
  },
]

/** Options of {@link modelsProtocol}. */
export interface ModelsProtocolOptions {
  /** What knows the memory of models that are not loaded. Default: nothing does. */
  readonly store?: ModelStore | undefined
}

/** Lists, loads and unloads models; see `docs/api.md`. */
export function modelsProtocol({ store }: ModelsProtocolOptions = {}): KoaProtocol {
  return {
    name: 'models',
    routes,
    mount(router: KoaRouter, directory: EngineDirectory) {
      mountRoutes(router, routes, {
        directory,
        unknownFields: new UnknownFields(),
        store,
        loads: new Set<WaitingLoad>(),
      })
    },
  }
}

/** {@link modelsProtocol} by its name. */
export const models = defineProtocol({
  name: 'models',
  doc: 'Lists, loads and unloads models under `/models`, and adapters as vLLM does.',
  create: (_, { store }) => modelsProtocol({ store }),
})
