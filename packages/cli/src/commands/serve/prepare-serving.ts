import { accessSync, constants } from 'node:fs'
import { checkIsFile } from '@cllm/backend-llamacpp/sample-file'
import { CllmError, type Logger, type PluginRegistry } from '@cllm/core'
import { protocolsPlugin } from '@cllm/http-koa'
import { adaptersOf, readChatTemplate } from '../../config/paths.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { orInvalid } from '../../config/messages.js'
import { policyOptionsOf } from '../../config/resolve-policy.js'
import type { OwnSettings } from '../../config/served-models.js'
import { CrashFiles, crashFolder } from '../../engine/engine-files.js'
import { llamaCpp } from '../../engine/process-channel.js'
import {
  backendNameOf,
  ownBackendOptions,
  toEngineSettings,
} from '../../engine/to-engine-settings.js'
import { createLogger, type LevelledLogger } from '../../process/logger.js'
import { isDraftModel, type LoadingParts } from '../../models/served/loadable-models.js'
import { loadRegistry } from '../../plugins/load-registry.js'
import type { CommandIo } from '../command.js'

/** The parts of a serving process before it loads a model. */
export interface ServingParts extends LoadingParts {
  /** The logger with a level that can change at run time. */
  readonly level: LevelledLogger
}

/**
 * Loads the plug-ins, checks the configured names and options, and begins to log.
 *
 * @param loadsModels - whether this process loads models, whose files are checked then
 * @param given - logs in place of the configured logger
 */
export async function prepareServing(
  loaded: LoadedConfig,
  io: CommandIo,
  loadsModels: boolean,
  given?: Logger,
): Promise<ServingParts> {
  const { config } = loaded
  const registry = await loadRegistry(config.plugins, loaded.pluginsFolder, [protocolsPlugin])
  checkChoices(registry, loaded)
  if (loadsModels) checkFiles(loaded)
  const level = createLogger(config.logging)
  const logger = given ?? registry.createLogger(config.use, level)
  for (const warning of loaded.warnings) logger.warn({}, warning)
  const crashes = new CrashFiles(config.recorder.folder ?? crashFolder({ env: io.env }), logger)
  return { registry, logger, level, crashes }
}

/**
 * Checks, before a model is fetched, that the configured policy, proposer, backends and parts exist
 * and accept their options. Each engine creates its own instances later.
 *
 * @throws `invalid_configuration`, `invalid_policy` or `plugin_invalid`
 */
function checkChoices(registry: PluginRegistry, loaded: LoadedConfig): void {
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
    const any = { name: 'model', path: 'model', settings }
    const { backendName, backend } = toEngineSettings(loaded, any)
    registry.checkBackend(backendName, backend, ownBackendOptions(loaded.config, settings))
  }
}

/**
 * Checks, before models are fetched, that the files which their engines read besides them are there: chat templates
 * and adapters.
 *
 * @throws `invalid_configuration`
 */
function checkFiles({ config }: LoadedConfig): void {
  const { model, models, engine } = config
  const single: OwnSettings = { chat_template: model.chat_template }
  const served: readonly OwnSettings[] = Object.values(models.served)
  for (const settings of served.length > 0 ? served : [single]) {
    readChatTemplate(settings.chat_template)
    if (backendNameOf(config, settings) !== llamaCpp) continue
    const { lora = engine.lora } = settings
    for (const { name, path } of adaptersOf(lora as readonly string[])) {
      const look = () => {
        accessSync(path, constants.R_OK)
        checkIsFile(path, 'a GGUF file')
      }
      orInvalid(look, `engine.lora: the adapter ${name}, ${path}, cannot be read`)
    }
  }
}
