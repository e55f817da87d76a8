import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import type { ModelHost, ModelSettings } from '@cllm/bench'
import { createServer, registerPlugin } from '@cllm/host'
import { defined, PluginRegistry, systemClock } from '@cllm/core'
import { koaTransport, protocolsPlugin, Services, STARTED_AT } from '@cllm/http-koa'
import { loadConfig } from '../../config/load-config.js'
import { createProtocols } from '../../http/create-protocols.js'
import { availableCores } from '../../engine/available-cores.js'
import { availableMemory } from '../../engine/memory/available-memory.js'
import { findNativeLibraries } from '../../engine/native-library.js'
import { spawnEngine } from '../../engine/spawn-engine.js'
import { createLogger } from '../../process/logger.js'
import { type ResolvedModel, resolveModel } from '../../models/resolve-model.js'
import type { CommandIo } from '../command-io.js'
import { policiesOf } from './simulate.js'
import { type EngineSettings, llamaCpp } from '../../engine/engine-settings.js'
import { toEngineSettings } from '../../engine/to-engine-settings.js'

/** Loads models for the commands that measure them, with the same components as `cllm serve`. */
export async function modelHost(
  io: CommandIo,
  plugins: readonly string[] = [],
): Promise<ModelHost> {
  const { env, signal } = io
  const resolve = async ({ model }: ModelSettings) => await resolveModel(model, { env, signal })
  const spawn = async (settings: ModelSettings) => {
    const model = await resolve(settings)
    return await spawnEngine(hostedSettings(settings, model, plugins), { env, signal })
  }
  return {
    policies: await policiesOf(plugins),
    async openBackend(settings) {
      const { path } = await resolve(settings)
      const logger = createLogger(hostedLog)
      const surroundings = {
        clock: systemClock,
        logger,
        ...(await findNativeLibraries(env, logger)),
        availableMemory: () => availableMemory(),
        cores: { cores: availableCores(), engines: 1 },
      }
      return await createLlamaCppBackend(hostedBackend(settings, path), surroundings)
    },
    async serve(settings) {
      const { client, info, kill, ended } = await spawn(settings)
      const loaded = loadConfig({ argv: ['--model', settings.model], env: {} })
      const registry = new PluginRegistry()
      await registerPlugin(protocolsPlugin, registry)
      const services = new Services().set(STARTED_AT, systemClock.now())
      const protocols = createProtocols(loaded, registry, services)
      const transport = koaTransport({ host: '127.0.0.1', port: 0, protocols })
      const engines = { [info.model.id]: client }
      const server = createServer({ engines, transports: [transport], clock: systemClock })
      const [listening] = await server.listen()
      const close = async () => {
        await server.close()
        kill()
        await ended
      }
      return { url: new URL(listening?.url ?? 'http://127.0.0.1'), client, close }
    },
  }
}

/** What engines of measured models log. */
const hostedLog = { level: 'error', file: null } as const

/** The settings of a measured model's engine. */
export function hostedSettings(
  settings: ModelSettings,
  { path, name, spec }: ResolvedModel,
  plugins: readonly string[],
): EngineSettings {
  const sizes = hostedBackend(settings, path)
  const bare: EngineSettings = {
    backendName: llamaCpp,
    backend: sizes,
    policy: settings.policy,
    policyOptions: settings.policyOptions ?? {},
    options: settings.speculates === true ? { speculative: 'auto' } : {},
    plugins: plugins.map((use) => ({ use })),
    pluginsFolder: process.cwd(),
    use: {},
    log: hostedLog,
  }
  if (settings.asServed !== true) return bare
  const loaded = loadConfig({ argv: ['--model', settings.model], env: {} })
  const { backend, options, cache } = toEngineSettings(loaded, { name, spec, path, settings: {} })
  return { ...bare, backend: { ...backend, ...sizes }, options, ...defined({ cache }) }
}

/** The options of a measured model's backend. */
function hostedBackend(settings: ModelSettings, modelPath: string) {
  const { slots, contextSize, kvTokens, batchSize, gpu, threads } = settings
  return {
    modelPath,
    slots,
    batchSize,
    gpu,
    ...defined({ contextSize, kvTokens, threads }),
  }
}
