import { CllmError, type PluginRegistry } from '@cllm/core'
import { policyOptionsOf } from '../config/resolve-policy.js'
import type { LoadedConfig } from '../config/load-config.js'
import type { OwnSettings } from '../config/served-models.js'
import { ownBackendOptions, toEngineSettings } from '../engine/to-engine-settings.js'
import { modelName, type ResolveModelOptions } from '../models/resolve-model.js'

/**
 * Checks, before a model is fetched, that the configured policy, proposer, backends and parts exist
 * and accept their options. Each engine creates its own instances later.
 *
 * @throws `invalid_configuration`, `invalid_policy` or `plugin_invalid`
 */
export function checkChoices(registry: PluginRegistry, loaded: LoadedConfig): void {
  const { scheduler, models, use } = loaded.config
  registry.createPolicy(scheduler.policy, policyOptionsOf(scheduler))
  registry.parts.check(use)
  registry.modelSchedulers.create(models.scheduler, models.scheduler_options)
  const { speculative, speculative_options: proposerOptions } = scheduler
  if (!isDraftModel(speculative, registry, { sources: registry.modelSources() })) {
    registry.proposers.check(speculative, proposerOptions)
  } else if (Object.keys(proposerOptions).length > 0) {
    const message = `speculative_options: expected none, as ${speculative} is a model`
    throw new CllmError('invalid_configuration', message)
  }
  const served: readonly OwnSettings[] = Object.values(models.served)
  for (const { chat_template: _, spec: __, ...settings } of served.length > 0 ? served : [{}]) {
    const { backendName, backend } = toEngineSettings(loaded, {
      name: 'model',
      path: 'model',
      settings,
    })
    registry.checkBackend(backendName, backend, ownBackendOptions(loaded.config, settings))
  }
}

/**
 * Whether `scheduler.speculative` names a model and no proposer.
 *
 * @param find - how models are found
 * @throws `invalid_configuration` with the names of the proposers when it is neither
 */
export function isDraftModel(
  speculative: string,
  { proposers }: PluginRegistry,
  find: Pick<ResolveModelOptions, 'sources' | 'mustBeGguf'> = {},
): boolean {
  if (proposers.names.includes(speculative)) return false
  try {
    modelName(speculative, find)
    return true
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    proposers.check(speculative)
    throw error
  }
}
