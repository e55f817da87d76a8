import type { LlamaCppOptions } from '@cllm/backend-llamacpp'
import {
  createServer as createServerOnInstances,
  type EngineOptions,
  type PartChoice,
  type PluginEntry,
  type Server,
  type ServerOnEngines,
  type ServerInProcess,
  type ServerParts,
} from '@cllm/core'
import { defaultPolicyName, fallbackPolicy } from '@cllm/scheduler'
import { spawnEngine } from './engine/spawn-engine.js'
import { llamaCpp } from './engine/to-engine-settings.js'
import { resolveModel } from './models/resolve-model.js'
import { loadRegistry } from './plugins/load-registry.js'

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

/**
 * Creates a server. With instances of a backend or of engines, it runs in this process. With a
 * model's name, it fetches the model and starts the engine in a separate process, which `close`
 * ends.
 */
export async function createServer(
  parts: ServerByName | ServerInProcess | ServerOnEngines,
): Promise<Server> {
  if ('engines' in parts) return createServerOnInstances(parts)
  if (!('model' in parts)) return createServerOnInstances({ fallbackPolicy, ...parts })
  const { backendName = llamaCpp, plugins = [], pluginsFolder = process.cwd(), use = {} } = parts
  const registry = await loadRegistry({ plugins, pluginsFolder })
  registry.checkParts(use)
  const sources = registry.modelSources()
  const mustBeGguf = backendName === llamaCpp
  const model = await resolveModel(parts.model, { sources, mustBeGguf })
  const engine = await spawnEngine(
    {
      backendName,
      backend: {
        modelId: model.name,
        ...parts.backend,
        ...parts.backendOptions,
        modelPath: model.path,
      },
      policy: parts.policy ?? defaultPolicyName,
      policyOptions: parts.policyOptions ?? {},
      options: parts.options ?? {},
      plugins,
      pluginsFolder,
      use,
      log: { level: 'warn', file: null },
    },
    { env: process.env },
  )
  const engines = { [engine.info.model.id]: engine.client }
  const server = createServerOnInstances({ ...parts, engines })
  return {
    ...server,
    async close(graceMs) {
      await server.close(graceMs)
      engine.kill()
      await engine.ended
    },
  }
}
