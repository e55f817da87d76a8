import type { LlamaCppOptions } from '@cllm/backend-llamacpp'
import {
  createServer as createServerOnInstances,
  type EngineOptions,
  type PluginEntry,
  type Server,
  type ServerOnEngines,
  type ServerInProcess,
  type ServerParts,
} from '@cllm/core'
import { defaultPolicyName, fallbackPolicy } from '@cllm/scheduler'
import { spawnEngine } from './engine/spawn-engine.js'
import { resolveModel } from './models/resolve-model.js'

/** A server whose engine runs in a process of its own: its parts are names, paths and settings. */
export interface ServerByName extends ServerParts {
  /** A path, `hf:owner/repo[:quant]`, or a name that `cllm models` lists. It is fetched if need be. */
  readonly model: string
  /** Default `adaptive+fcfs`. */
  readonly policy?: string
  readonly policyOptions?: Readonly<Record<string, unknown>>
  /** Settings of llama.cpp. */
  readonly backend?: Omit<LlamaCppOptions, 'modelPath'>
  /** Limits of the engine. */
  readonly options?: Partial<EngineOptions>
  /** Plugins with policies for the engine, by package name or path. */
  readonly plugins?: readonly PluginEntry[]
  /** Folder that plugins are looked up from; default: the working directory. */
  readonly pluginsFolder?: string
}

/**
 * Puts a server together. With instances of a backend or of engines it runs in this process; with a
 * model's name the model is fetched, its engine is started in a process of its own, and `close` ends
 * that process.
 */
export async function createServer(
  parts: ServerByName | ServerInProcess | ServerOnEngines,
): Promise<Server> {
  if ('engines' in parts) return createServerOnInstances(parts)
  if (!('model' in parts)) return createServerOnInstances({ fallbackPolicy, ...parts })
  const model = await resolveModel(parts.model)
  const engine = await spawnEngine(
    {
      backend: { modelId: model.name, ...parts.backend, modelPath: model.path },
      policy: parts.policy ?? defaultPolicyName,
      policyOptions: parts.policyOptions ?? {},
      options: parts.options ?? {},
      plugins: parts.plugins ?? [],
      pluginsFolder: parts.pluginsFolder ?? process.cwd(),
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
