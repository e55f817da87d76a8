import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import type { ModelHost, ModelSettings } from '@cllm/bench'
import { defined, systemClock } from '@cllm/core'
import type { CommandIo } from '../command.js'
import { readObjectLayer } from '../../config/layers.js'
import { loadConfig, type LoadedConfig } from '../../config/load-config.js'
import { availableCores, availableMemory } from '../../engine/available.js'
import { findNativeLibraries } from '../../engine/native-library.js'
import { resolveModel } from '../../models/resolve-model.js'
import { policiesOf } from '../../plugins/load-registry.js'
import { createLogger } from '../../process/logger.js'
import { startServing } from '../serve/start-serving.js'

/** Loads models for the commands that measure them, with the same components as `cllm serve`. */
export async function modelHost(
  io: CommandIo,
  plugins: readonly string[] = [],
): Promise<ModelHost> {
  const { env, signal } = io
  return {
    policies: await policiesOf(plugins),
    async openBackend({ model, slots, contextSize, kvTokens, batchSize, gpu, threads }) {
      const { path: modelPath } = await resolveModel(model, { env, signal })
      const logger = createLogger({ level: 'error', file: null })
      const surroundings = {
        clock: systemClock,
        logger,
        ...(await findNativeLibraries(env, logger)),
        availableMemory: () => availableMemory(),
        cores: { cores: availableCores(), engines: 1 },
      }
      const sizes = { slots, batchSize, gpu, ...defined({ contextSize, kvTokens, threads }) }
      return await createLlamaCppBackend({ modelPath, ...sizes }, surroundings)
    },
    async serve(settings) {
      const serving = await startServing(hostedConfig(settings, plugins), io)
      return {
        url: new URL(serving.addresses[0]!.url),
        client: serving.directory.open(),
        close: () => serving.close(),
      }
    },
  }
}

/** The configuration of a measured model's server. */
export function hostedConfig(
  { model, asServed = false, speculates = asServed, ...settings }: ModelSettings,
  plugins: readonly string[],
): LoadedConfig {
  const { slots, batchSize, gpu, contextSize, kvTokens, threads } = settings
  const { policy, policyOptions = {} } = settings
  const layer = {
    server: { port: 0 },
    model: { spec: model },
    engine: {
      slots,
      batch_size: batchSize,
      gpu,
      ctx_size: contextSize,
      kv_tokens: kvTokens,
      threads,
    },
    scheduler: { policy, policy_options: policyOptions, speculative: speculates ? 'auto' : 'off' },
    ...(!asServed && { cache: { ram: 0 } }),
    logging: { level: 'error' },
    plugins,
  }
  return loadConfig({ argv: [], env: {}, given: [readObjectLayer(layer, 'the model')] })
}
