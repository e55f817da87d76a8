import { CllmError, type EngineDirectory } from '@cllm/core'
import { z } from 'zod'
import { get, post } from '../../routes/route.js'
import type { Answer, Call, QueryCallOf, Route } from '../../routes/route.js'
import { nativeErrors } from '../../errors/error-body.js'
import { openAiErrors, unknownFingerprint } from '../openai/openai-answer.js'
import {
  failureOf,
  engineInMemory,
  infoOf,
  type ModelQuery,
  modelQuery,
  peekInfo,
} from '../../engines/model-queries.js'
import { mayChangeServer } from '../../security/authenticate.js'
import { adapterChoices, generationSettings } from '../../fields/generation-fields.js'
import { parseFields } from '../../fields/fields.js'
import { mediaMarker } from '../../fields/mixed-prompts.js'
import type { LlamaServerContext } from './completion-request.js'

/** `GET /health`, `GET /v1/health`; 503 when no engine answers. */
async function health(call: Call): Promise<Answer> {
  const failure = await failureOf(call.clock, call.engines)
  if (failure !== undefined) throw failure
  return { status: 'ok' }
}

/** `GET /props`: the model, its template and the defaults. */
async function props(call: Call<unknown, ModelQuery>, llama: LlamaServerContext) {
  const asked = call.query.model
  const { engines: directory } = call
  const isOpen = asked === undefined && directory.list().length > 1
  if (isOpen && (await peekInfo(directory)) === undefined) return manyModels(directory)
  const info = await infoOf(directory, asked)
  const { model, limits } = info
  const defaults = llama.defaults
  const { details = {} } = model
  return {
    default_generation_settings: {
      id: 0,
      id_task: -1,
      n_ctx: limits.contextSize,
      speculative: false,
      is_processing: false,
      params: generationSettings(
        { fallbackSampling: defaults.sampling, sampling: defaults.set ?? {} },
        info,
      ),
      prompt: '',
      next_token: { has_next_token: true, has_new_line: false, n_remain: -1, n_decoded: 0 },
    },
    total_slots: limits.slots,
    model_alias: model.id,
    model_path: model.path ?? '',
    modalities: { vision: model.images === true, video: false, audio: model.audio === true },
    media_marker: mediaMarker,
    chat_template: details['chatTemplate'] ?? '',
    bos_token: details['bosToken'] ?? '',
    eos_token: details['eosToken'] ?? '',
    build_info: unknownFingerprint,
    is_sleeping: directory.status(asked).state !== 'loaded',
  }
}

/** The properties of a server with several models of which none was in memory, as in llama-server's router. */
function manyModels(directory: EngineDirectory) {
  const count = directory.list().length
  const { autoload = true, maxLoaded = count } = directory.loading ?? {}
  return {
    role: 'router',
    max_instances: Math.min(maxLoaded, count),
    models_autoload: autoload,
    model_alias: 'cllm',
    model_path: 'none',
    default_generation_settings: { params: {}, n_ctx: 0 },
    build_info: unknownFingerprint,
  }
}

/** The query of `POST /slots/{id}`. */
const slotActionQuery = modelQuery.extend({
  action: z.enum(['save', 'restore', 'erase'], 'save, restore or erase'),
})

/** The body of `POST /slots/{id}`; nothing for `erase`. */
const slotActionSchema = z.object({ filename: z.string('the name of a file') })

/** `POST /slots/{id}?action=save|restore|erase`: the slot's content, in a file in `--slot-save-path`. */
async function slotAction(call: QueryCallOf<typeof slotActionQuery>): Promise<Answer> {
  const { body, engines, params } = call
  const { model, action } = call.query
  const { id = '' } = params
  const slot = /^\d{1,6}$/.test(id) ? Number(id) : -1
  const client = engines.open(model, { peek: true })
  if (action === 'erase') {
    const { tokens } = await client.slotAction(slot, { action })
    return { id_slot: slot, n_erased: tokens }
  }
  const { filename } = parseFields(slotActionSchema, await body.object())
  const { tokens, bytes, ms } = await client.slotAction(slot, { action, filename })
  return action === 'save'
    ? { id_slot: slot, filename, n_saved: tokens, n_written: bytes, timings: { save_ms: ms } }
    : { id_slot: slot, filename, n_restored: tokens, n_read: bytes, timings: { restore_ms: ms } }
}

/** The query of `GET /slots`. */
const slotsQuery = modelQuery.extend({
  fail_on_no_slot: z.string('1 or another string').optional(),
})

/**
 * `GET /slots`: the state of the slots, never their content; with `?fail_on_no_slot=1` 503 if all are busy.
 *
 * @throws `not_implemented` if the operator has turned it off
 */
async function slots(call: QueryCallOf<typeof slotsQuery>, llama: LlamaServerContext) {
  const { engines: directory } = call
  if (!llama.showsSlots)
    throw new CllmError('not_implemented', 'This server does not show its slots')
  const { model, fail_on_no_slot: fail } = call.query
  const client = engineInMemory(directory, model)
  if (client === undefined) return []
  const [{ limits }, statistics] = await Promise.all([client.info(), client.statistics()])
  const busy = statistics.slots.filter(({ state }) => state !== 'idle').length
  if (fail === '1' && busy >= limits.slots) {
    throw new CllmError('engine_unavailable', 'no slot available')
  }
  return statistics.slots.map(({ slot, state, tokens }) => ({
    id: slot,
    id_task: -1,
    n_ctx: limits.contextSize,
    speculative: false,
    is_processing: state !== 'idle',
    state,
    // the lengths of other clients' prompts are not shown to users
    ...(mayChangeServer() && { n_past: tokens }),
  }))
}

/** `GET /lora-adapters`: the adapters with their scales for requests that name none. Never loads a model. */
async function loraAdapters(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { engines: directory } = call
  const { model } = call.query
  const engine = engineInMemory(directory, model)
  const all = engine ? await engine.adapters() : (directory.status(model).info?.adapters ?? [])
  const defaults = directory.defaultAdapters?.(model) ?? []
  return all.map(({ id, name, path, scale }) => {
    const chosen = defaults.find(({ adapter }) => adapter === id || adapter === name)
    return { id, name, path, scale: chosen === undefined ? 0 : (chosen.scale ?? scale) }
  })
}

/** `POST /lora-adapters`: sets the scales for requests that name no adapters; unnamed adapters get 0. */
async function setLoraAdapters(call: Call<unknown, ModelQuery>): Promise<Answer> {
  const { adapters } = parseFields(adaptersSchema, { adapters: await call.body.list() })
  const { engines: directory } = call
  if (directory.setDefaultAdapters === undefined) {
    throw new CllmError('unsupported', 'This server applies no adapters to all requests')
  }
  directory.setDefaultAdapters(adapters, call.query.model)
  return { success: true }
}

const adaptersSchema = z.object({ adapters: adapterChoices })

/** llama-server's routes about its properties and state. */
export const stateRoutes: readonly Route<LlamaServerContext>[] = [
  get('/props', 'user', 'The model and the defaults', props, { query: modelQuery }),
  get('/slots', 'user', 'The state of the slots', slots, { query: slotsQuery }),
  post('/slots/:id', 'user', 'Save, restore or erase a slot', slotAction, {
    query: slotActionQuery,
  }),
  get(
    '/lora-adapters',
    'user',
    'The adapters, and which are applied to requests that name none',
    loraAdapters,
    { query: modelQuery },
  ),
  post(
    '/lora-adapters',
    'admin',
    'Apply adapters to all requests that name none',
    setLoraAdapters,
    { query: modelQuery },
  ),
  get('/health', 'open', 'Health', health, { isQuiet: true, errors: nativeErrors }),
  get('/v1/health', 'open', 'Health', health, { isQuiet: true, errors: openAiErrors }),
]
