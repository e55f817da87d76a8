import { CllmError, defined, type ModelStatus } from '@cllm/core'
import { z } from 'zod'
import { bindRoutes, get, post } from '../../routes/route.js'
import type { Answer, Call, CallOf, QueryCallOf, Route } from '../../routes/route.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { defineProtocol, MODEL_STORE, type ModelStore } from '../../routes/define-protocol.js'
import { keepAliveField, boolean, integer, number, text } from '../../fields/fields.js'
import { llamaForm, modalitiesOf } from '../openai/models.js'
import { openAiErrors } from '../openai/openai-answer.js'

const model = z.string('the name of a model').min(1, 'the name of a model')

const wanted = (most: number, usual: number) =>
  z.preprocess(Number, integer(1, most)).default(usual)

/** The query of {@link catalog}. */
const sizeQuery = z.object({ slots: wanted(4096, 1), ctx_size: wanted(2 ** 24, 4096) })
/** The query of {@link memory}. */
const memoryQuery = sizeQuery.extend({ model })

/** `GET /models/catalog`: what `POST /api/pull` can fetch, and how much memory each would take. */
async function catalog(call: QueryCallOf<typeof sizeQuery>, { store }: ModelsContext) {
  const { slots, ctx_size: contextSize } = call.query
  if (store?.catalog === undefined) {
    throw new CllmError('unsupported', 'This server has no catalog of models')
  }
  const { available, models } = await store.catalog(slots, contextSize)
  const data = models.map(({ name, title, bytes, present, total }) => {
    return { id: name, title, size_bytes: bytes, present, total_bytes: total ?? null }
  })
  return { success: true, object: 'list', available_bytes: available, data }
}

/** `GET /models/memory`: how much memory a model would take, without loading it. */
async function memory(call: QueryCallOf<typeof memoryQuery>, { store }: ModelsContext) {
  const { model, slots, ctx_size: contextSize } = call.query
  if (store?.memory === undefined) {
    const message = 'This server does not know how much memory models take before they are loaded'
    throw new CllmError('unsupported', message)
  }
  const { weights, total, available } = await store.memory(model, slots, contextSize)
  return {
    success: true,
    data: {
      model,
      slots,
      ctx_size: contextSize,
      weights_bytes: weights,
      total_bytes: total,
      available_bytes: available,
    },
  }
}

const adapterName = text.min(1, 'the name of an adapter')
const baseModel = text.min(1, 'the name of a model').optional()

/** The body of `POST /v1/load_lora_adapter`. */
const loadAdapterSchema = z.object({
  lora_name: adapterName,
  lora_path: text.min(1, 'a file on the server'),
  base_model_name: baseModel,
  load_inplace: boolean.optional(),
  scale: number(-1000, 1000).optional(),
})

/** The body of `POST /v1/unload_lora_adapter`. */
const unloadAdapterSchema = z.object({ lora_name: adapterName, base_model_name: baseModel })

/** `POST /v1/load_lora_adapter`, as vLLM has it: answers once requests can name the adapter. */
async function loadAdapter(call: CallOf<typeof loadAdapterSchema>): Promise<Answer> {
  const { fields } = call
  const { lora_name: name, lora_path: path, scale } = fields
  const { client } = call.open(fields.base_model_name)
  if (fields.load_inplace === true) await client.unloadAdapter(name).catch(ignoreUnknown)
  const source = { name, path, ...defined({ scale }) }
  await client.loadAdapter(source).catch(blameThePath)
  return `Success: LoRA adapter '${name}' added successfully.`
}

/** `POST /v1/unload_lora_adapter`: requests that use it go on, new ones cannot name it. */
async function unloadAdapter(call: CallOf<typeof unloadAdapterSchema>): Promise<Answer> {
  const { fields } = call
  await call.open(fields.base_model_name).client.unloadAdapter(fields.lora_name)
  return `Success: LoRA adapter '${fields.lora_name}' removed successfully.`
}

/** The client named the file. */
function blameThePath(error: unknown): never {
  const isFile = CllmError.isInstance(error) && /^model_(invalid|unavailable)$/.test(error.code)
  if (!isFile) throw error
  const details = { field: 'lora_path' }
  throw new CllmError('invalid_request', error.message, { details, cause: error })
}

function ignoreUnknown(error: unknown): void {
  if (!CllmError.isInstance(error) || error.code !== 'model_not_found') throw error
}

/** What the handlers of the models protocol share. */
interface ModelsContext {
  readonly store: ModelStore | undefined
  /** What ends the calls of `POST /models/load` that wait, with their models' names. */
  readonly loads: Map<AbortController, string>
}

const loadSchema = z.object({ model, keep_alive: keepAliveField })
const unloadSchema = z.object({ model })

/** `GET /models`: every model with its state. */
function list({ engines: directory }: Call): Answer {
  const adapted = (directory.adapted?.() ?? []).map(({ name }) => name)
  const data = [...directory.list(), ...adapted].map((name) => describe(directory.status(name)))
  return { success: true, object: 'list', data, models: data.map(llamaForm) }
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
    ...(info !== undefined && { architecture: modalitiesOf(info) }),
  }
}

/** `POST /models/load`: answers once the model is in memory. */
async function load(call: CallOf<typeof loadSchema>, { loads }: ModelsContext): Promise<Answer> {
  const { engines: directory } = call
  const { model, keep_alive: keepAliveMs } = call.fields
  const ending = new AbortController()
  loads.set(ending, directory.nameOf(model))
  try {
    const options = { until: ending.signal, load: true, ...defined({ keepAliveMs }) }
    await directory.open(model, options).info()
  } finally {
    loads.delete(ending)
    ending.abort()
  }
  return { success: true, data: describe(directory.status(model)) }
}

/**
 * `POST /models/unload`: answers once the model is out of memory; its requests finish first. A load
 * that no request waits for is ended.
 */
async function unload(call: CallOf<typeof unloadSchema>, { loads }: ModelsContext) {
  const { engines: directory } = call
  const { model } = call.fields
  const name = directory.nameOf(model)
  const message = `The model ${name} was asked to leave memory while it was loaded`
  for (const [ending, loading] of loads) {
    if (loading === name) ending.abort(new CllmError('engine_unavailable', message))
  }
  await directory.unload(model)
  return { success: true, data: describe(directory.status(model)) }
}

const asVllm = { errors: openAiErrors, answers: ['text/plain'] }

const routes: readonly Route<ModelsContext>[] = [
  get('/models', 'user', 'The models and their states', list),
  get('/models/memory', 'user', 'How much memory a model would take', memory, {
    query: memoryQuery,
  }),
  get('/models/catalog', 'user', 'The models that can be fetched', catalog, { query: sizeQuery }),
  post('/models/load', 'admin', 'Load a model into memory', load, { body: loadSchema }),
  post('/models/unload', 'admin', 'Unload a model from memory', unload, { body: unloadSchema }),
  post('/v1/load_lora_adapter', 'admin', 'Load a LoRA adapter beside a model', loadAdapter, {
    ...asVllm,
    body: loadAdapterSchema,
  }),
  post('/v1/unload_lora_adapter', 'admin', 'Unload a LoRA adapter', unloadAdapter, {
    ...asVllm,
    body: unloadAdapterSchema,
  }),
]

/** Options of {@link modelsProtocol}. */
export interface ModelsProtocolOptions {
  /** What knows the memory of models that are not loaded. Default: nothing does. */
  readonly store?: ModelStore | undefined
}

/** Lists, loads and unloads models; see `docs/api.md`. */
export function modelsProtocol({ store }: ModelsProtocolOptions = {}): KoaProtocol {
  return { name: 'models', routes: bindRoutes(routes, { store, loads: new Map() }) }
}

/** {@link modelsProtocol} by its name. */
export const models = defineProtocol({
  name: 'models',
  doc: 'Lists, loads and unloads models under `/models`, and adapters as vLLM does.',
  create: (_, services) => modelsProtocol({ store: services.get(MODEL_STORE) }),
})
