import type { LlamaCppOptions } from '@cllm/backend-llamacpp'
import { CllmError, checkServerParts, type EngineOptions, type PartChoice } from '@cllm/core'
import {
  createServer as createServerOnInstances,
  type LoadableModel,
  ModelPool,
  type PluginEntry,
  type Server,
  type ServerOnEngines,
  type ServerInProcess,
  type ServerParts,
} from '@cllm/host'
import { defaultPolicyName, fallbackPolicy } from '@cllm/scheduler'
import { hasMediaLibrary } from '../engine/native-library.js'
import { asLoaded, spawnEngine } from '../engine/spawn-engine.js'
import { llamaCpp } from '../engine/process-channel.js'
import { catalogSampling } from '../models/catalog/catalog.js'
import { modelName, resolveModel } from '../models/resolve-model.js'
import { loadRegistry } from '../plugins/load-registry.js'

/** A server with its engine in a separate process; its parts are names, paths and settings. */
export interface ServerByName extends ServerParts {
  /** A path, `hf:owner/repo[:quant]`, or a name from `cllm models`; fetched if necessary. */
  readonly model: string
  /** Default `adaptive+fcfs`. */
  readonly policy?: string
  readonly policyOptions?: Readonly<Record<string, unknown>>
  /** The backend; any but the default comes from a plugin. Default `llamacpp`. */
  readonly backendName?: string
  /** Settings of llama.cpp. */
  readonly backend?: Omit<LlamaCppOptions, 'modelPath'>
  /** Options of a plugin's backend. Default: none. */
  readonly backendOptions?: Readonly<Record<string, unknown>>
  /** Plugins' replacements for built-in parts. Default: none. */
  readonly use?: PartChoice
  /** Limits of the engine. */
  readonly options?: Partial<EngineOptions>
  /** Plugins with policies for the engine, by package name or path. */
  readonly plugins?: readonly PluginEntry[]
  /** Folder from which plugins are resolved. Default: the working directory. */
  readonly pluginsFolder?: string
}

const partNames: Readonly<Record<keyof ServerByName, true>> = {
  model: true,
  policy: true,
  policyOptions: true,
  backendName: true,
  backend: true,
  backendOptions: true,
  use: true,
  options: true,
  plugins: true,
  pluginsFolder: true,
  presets: true,
  transports: true,
  clock: true,
  random: true,
  logger: true,
}

/**
 * Creates a server. With instances of a backend or of engines, it runs in this process. With a
 * model's name, it checks all names and options, makes the transports, fetches the model and starts
 * the engine in a separate process, which `close` ends.
 *
 * @throws `invalid_configuration` (also for parts that are unknown or missing), `invalid_policy` or the errors of plug-ins before anything is
 *   fetched; then what `resolveModel` and the engine throw
 */
export async function createServer(
  given: ServerByName | ServerInProcess | ServerOnEngines,
): Promise<Server> {
  // JavaScript may give none.
  const parts: typeof given = Object(given)
  if ('engines' in parts) return createServerOnInstances(parts)
  if (!('model' in parts) && 'backend' in parts) {
    return createServerOnInstances({ fallbackPolicy, ...parts })
  }
  checkServerParts(parts, Object.keys(partNames), [['model', 'backend', 'engines']])
  if (typeof parts.model !== 'string') {
    const message = 'createServer: model: expected a path, hf:owner/repo[:quant] or a name'
    throw new CllmError('invalid_configuration', message, { details: { field: 'model' } })
  }
  const model = await loadable(parts)
  const { transports, clock, random, logger, presets = [] } = parts
  const own = { ...(clock && { clock }), ...(logger && { logger }), ...(random && { random }) }
  const pool = new ModelPool({ models: [model], ...own })
  const server = createServerOnInstances({ directory: pool, presets, transports, ...own })
  try {
    await pool.load()
    return server
  } catch (error) {
    await server.close()
    throw error
  }
}

/** The model, after a check of everything that can be wrong without it. */
async function loadable(parts: ServerByName): Promise<LoadableModel> {
  const { backendName = llamaCpp, plugins = [], pluginsFolder = process.cwd(), use = {} } = parts
  const { policy = defaultPolicyName, policyOptions = {}, options = {} } = parts
  const registry = await loadRegistry(plugins, pluginsFolder)
  const find = { sources: registry.modelSources(), mustBeGguf: backendName === llamaCpp }
  const backend = {
    modelId: modelName(parts.model, find),
    ...parts.backend,
    ...parts.backendOptions,
  }
  registry.createPolicy(policy, policyOptions)
  registry.parts.check(use)
  registry.checkBackend(backendName, { ...backend, modelPath: 'model' }, parts.backendOptions)
  const log = { level: 'warn', file: null }
  const own = { sampling: catalogSampling(parts.model), ...options }
  const common = { backendName, policy, policyOptions, plugins, pluginsFolder, use, log }
  const settings = { ...common, options: own }
  return {
    name: backend.modelId,
    async load({ signal }) {
      const { mmprojPath, mediaLibrary } = backend as Readonly<Record<string, unknown>>
      const isOpen = find.mustBeGguf && mmprojPath === undefined
      const looks = isOpen && (mediaLibrary !== undefined || (await hasMediaLibrary(process.env)))
      const asked = { ...find, signal, textOnly: !looks }
      const { path, projector } = await resolveModel(parts.model, asked)
      const seeing = projector && { mmprojPath: projector, mmprojOptional: true }
      const engine = await spawnEngine(
        { ...settings, backend: { ...seeing, ...backend, modelPath: path } },
        { env: process.env, signal },
      )
      return asLoaded(engine)
    },
  }
}
