import type { ModelSettings } from '@cllm/bench'
import { defined } from '@cllm/core'
import { loadConfig } from '../../config/load-config.js'
import type { EngineSettings } from '../../engine/engine-settings.js'
import { llamaCpp, toEngineSettings } from '../../engine/to-engine-settings.js'
import type { ResolvedModel } from '../../models/resolve-model.js'

/** What engines of measured models log. */
export const hostedLog = { level: 'error', file: null } as const

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
export function hostedBackend(settings: ModelSettings, modelPath: string) {
  const { slots, contextSize, kvTokens, batchSize, gpu, threads } = settings
  return {
    modelPath,
    slots,
    batchSize,
    gpu,
    ...defined({ contextSize, kvTokens, threads }),
  }
}
