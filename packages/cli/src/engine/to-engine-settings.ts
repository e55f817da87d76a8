import { defined, CllmError } from '@cllm/core'
import type { SupervisorOptions } from '@cllm/host'
import { policyOptionsOf } from '../config/resolve-policy.js'
import type { LoadedConfig } from '../config/load-config.js'
import { type CllmConfig, options } from '../config/options/schema.js'
import { readAuthority, readChatTemplate } from '../config/paths.js'
import type { OwnSettings } from '../config/served-models.js'
import { catalogSampling } from '../models/catalog/catalog.js'
import { type CacheSettings, type EngineSettings, llamaCpp } from './process-channel.js'

/** A model to serve: its file, and its own settings. */
export interface ModelToServe {
  /** The name that clients use. */
  readonly name: string
  /** The spec that it was found by, such as a name of the catalog. Default: its file. */
  readonly spec?: string
  /** Its file. */
  readonly path: string
  /** The projector that was found for it. Default: none. */
  readonly projector?: string
  /** The file of its draft model; default: none, as `scheduler.speculative` is no model. */
  readonly draftPath?: string
  readonly settings: OwnSettings
}

/**
 * Converts the configuration to the settings of a model's engine.
 *
 * @param hasKeys - whether API keys of others than the configuration's let clients in
 */
export function toEngineSettings(
  loaded: LoadedConfig,
  model: ModelToServe,
  hasKeys = false,
): EngineSettings {
  const { config } = loaded
  const { scheduler } = config
  const { context_shift: contextShift } = ownEngine(config, model.settings)
  return {
    backendName: backendNameOf(config, model.settings),
    backend: toBackendOptions(config, model),
    ...(model.draftPath !== undefined && { draft: toDraftOptions(config, model) }),
    policy: scheduler.policy,
    policyOptions: policyOptionsOf(scheduler),
    options: {
      maxQueuedRequests: scheduler.max_queued_requests,
      isolateTenants: hasKeys || isolatesTenants(config),
      speculative: model.draftPath === undefined ? scheduler.speculative : 'draft',
      proposerOptions: scheduler.speculative_options,
      contextShift,
      volatileLines: config.cache.volatile_lines,
      sampling: catalogSampling(model.spec ?? model.path),
      // 0 is no limit.
      ...defined({
        maxQueuedTokens: scheduler.max_queued_tokens || undefined,
        maxQueueWaitMs: scheduler.max_queue_wait * 1000 || undefined,
        requestTimeoutMs: scheduler.request_timeout * 1000 || undefined,
      }),
    },
    plugins: config.plugins,
    pluginsFolder: loaded.pluginsFolder,
    use: config.use,
    cache: toCacheSettings(config),
    log: { level: config.logging.level, file: config.logging.file },
  }
}

/** Converts the configuration to options for watching an engine's process. */
export function toSupervisorOptions({ engine }: CllmConfig): Partial<SupervisorOptions> {
  return {
    hangTimeoutMs: engine.hang_timeout * 1000,
    prepareTimeoutMs: engine.prepare_timeout * 1000,
  }
}

function toCacheSettings({ cache, cluster: { url, ca } }: CllmConfig): CacheSettings {
  const { ram, disk: folder, disk_size: size, disk_age: days, slot_save_path: saved, key } = cache
  const limits = { limitBytes: size * 2 ** 20, maxAgeMs: days * 24 * 3_600_000 }
  return {
    ram,
    ...(folder !== null && { disk: { folder, ...limits } }),
    ...(saved !== null && { slotFolder: saved }),
    ...(key !== null && { key }),
    ...(url !== null && { cluster: { url, ...(ca !== null && { ca: readAuthority(ca) }) } }),
  }
}

/** API keys imply tenants, so prefixes must not be shared between them. */
const isolatesTenants = ({ security }: CllmConfig): boolean =>
  security.isolate_tenants || security.api_key !== null || security.api_keys !== null

/** The name of the backend for a model with these settings. */
export const backendNameOf = ({ engine }: CllmConfig, settings: OwnSettings): string =>
  settings.backend ?? engine.backend

/** The settings of `engine` for a model. */
function ownEngine({ engine }: CllmConfig, settings: OwnSettings): CllmConfig['engine'] {
  const { chat_template: _, keep_alive: __, ...own } = settings
  return { ...engine, ...own }
}

/** The `backend_options` that apply to the backend of a model. */
export function ownBackendOptions(config: CllmConfig, settings: OwnSettings) {
  const engine = ownEngine(config, settings)
  const isOther = engine.backend !== config.engine.backend
  return isOther ? (settings.backend_options ?? {}) : engine.backend_options
}

function toBackendOptions(
  config: CllmConfig,
  { name, path, projector, draftPath, settings }: ModelToServe,
): EngineSettings['backend'] {
  const engine = ownEngine(config, settings)
  const isLlamaCpp = engine.backend === llamaCpp
  // Threads of one model that poll for its next pass would keep the cores from the other model.
  const pollsBeside = draftPath !== undefined && isLlamaCpp && engine.native !== 'addon'
  const sees = isLlamaCpp && engine.mmproj === 'auto' && projector !== undefined
  return {
    ...backendOptions(engine, isLlamaCpp),
    ...defined({ chatTemplate: readChatTemplate(settings.chat_template) }),
    ...(pollsBeside && { poll: 0 }),
    ...(sees && { mmprojPath: projector, mmprojOptional: true }),
    ...ownBackendOptions(config, settings),
    modelPath: path,
    modelId: name,
  }
}

/** The options of a draft model: the served model's, without those about its text and its memory. */
function toDraftOptions(config: CllmConfig, model: ModelToServe): EngineSettings['backend'] {
  const {
    chatTemplate: _,
    reasoning: __,
    kvTokens: ___,
    mmprojPath: ____,
    ...options
  } = toBackendOptions(config, model)
  return { ...options, modelPath: model.draftPath, modelId: 'draft' }
}

type EngineConfig = CllmConfig['engine']
type BackendOptions = Record<string, unknown>

const toBackend = options.filter(({ path }) => path.startsWith('engine.'))

/**
 * The backend's options that follow from the settings of `engine`; `isLlamaCpp`: also those that only llama.cpp has.
 */
function backendOptions(engine: EngineConfig, isLlamaCpp: boolean): BackendOptions {
  const given: BackendOptions = {}
  for (const { path, backend, llamaCpp } of toBackend) {
    const target = backend ?? (isLlamaCpp ? llamaCpp : undefined)
    const value = engine[path.slice('engine.'.length) as keyof EngineConfig]
    if (target !== undefined && isSet(value)) place(given, target, value)
  }
  if (!isLlamaCpp) return given
  // Options whose values have another form than their settings.
  const shares = engine.tensor_split.map(toShare)
  const tensors = [...overrides(engine)]
  if (shares.length > 0) place(given, 'placement.tensorSplit', shares)
  if (tensors.length > 0) place(given, 'placement.overrideTensors', tensors)
  if (engine.reasoning !== 'auto') given['reasoning'] = engine.reasoning === 'on'
  return given
}

const isSet = (value: unknown): boolean =>
  value !== null && value !== 'auto' && !(Array.isArray(value) && value.length === 0)

function place(options: BackendOptions, path: string, value: unknown): void {
  const [name = '', inner] = path.split('.')
  if (inner === undefined) options[name] = value
  else options[name] = { ...(options[name] as BackendOptions | undefined), [inner]: value }
}

function* overrides({ override_tensor: given, n_cpu_moe: layers }: EngineConfig) {
  for (const text of given) yield toOverride(text)
  for (let layer = 0; layer < layers; layer++) {
    // llama.cpp's own pattern of the weights of experts
    const pattern = `blk\\.${layer}\\.ffn_(up|down|gate|gate_up)_(ch|)exps`
    yield { pattern, device: 'CPU' }
  }
}

function toOverride(text: string): { readonly pattern: string; readonly device: string } {
  const [, pattern, device] = /^(.+)=([^=]+)$/.exec(text) ?? []
  if (pattern !== undefined && device !== undefined) return { pattern, device }
  throw wrong('engine.override_tensor', 'PATTERN=DEVICE', text)
}

function toShare(text: string): number {
  const share = Number(text)
  if (text.trim() !== '' && Number.isFinite(share) && share >= 0) return share
  throw wrong('engine.tensor_split', 'numbers from 0 up', text)
}

function wrong(field: string, expected: string, received: string): CllmError {
  const message = `${field}: expected ${expected}, got "${received}"`
  return new CllmError('invalid_configuration', message, { details: { field, expected, received } })
}
