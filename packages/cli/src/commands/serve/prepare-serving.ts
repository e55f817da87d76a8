import { accessSync, constants, statSync } from 'node:fs'
import type { Logger } from '@cllm/core'
import { protocolsPlugin } from '@cllm/http-koa'
import { adaptersOf } from '../../config/adapters.js'
import { readChatTemplate } from '../../config/chat-templates.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { orInvalid } from '../../config/messages.js'
import type { OwnSettings } from '../../config/served-models.js'
import { CrashFiles, crashFolder } from '../../engine/crash-files.js'
import { llamaCpp } from '../../engine/engine-settings.js'
import { backendNameOf } from '../../engine/to-engine-settings.js'
import { createLogger, type LevelledLogger } from '../../process/logger.js'
import type { LoadingParts } from '../../models/served/loadable-models.js'
import { checkChoices } from '../../plugins/check-choices.js'
import { loadRegistry } from '../../plugins/load-registry.js'
import type { CommandIo } from '../command-io.js'

/** What a process that serves has before it loads a model. */
export interface ServingParts extends LoadingParts {
  /** The logger with a level that can change at run time. */
  readonly level: LevelledLogger
}

/**
 * Loads the plug-ins, checks what was chosen, and begins to log.
 *
 * @param loadsModels - whether this process loads models, whose files are checked then
 * @param given - what logs in place of the configured logger
 */
export async function prepareServing(
  loaded: LoadedConfig,
  io: CommandIo,
  loadsModels: boolean,
  given?: Logger,
): Promise<ServingParts> {
  const { config } = loaded
  const registry = await loadRegistry(
    { ...loaded, plugins: config.plugins },
    { builtIns: [protocolsPlugin] },
  )
  checkChoices(registry, loaded)
  if (loadsModels) checkFiles(loaded)
  const level = createLogger(config.logging)
  const logger = given ?? registry.createLogger(config.use, level)
  for (const warning of loaded.warnings) logger.warn({}, warning)
  const crashes = new CrashFiles(config.recorder.folder ?? crashFolder({ env: io.env }), logger)
  return { registry, logger, level, crashes }
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
    for (const { name, path } of adaptersOf(lora as readonly string[])) checkAdapter(name, path)
  }
}

function checkAdapter(name: string, path: string): void {
  const look = () => {
    accessSync(path, constants.R_OK)
    if (statSync(path).isDirectory()) throw new Error(`expected a GGUF file, ${path} is a folder`)
  }
  orInvalid(look, (reason) => `engine.lora: the adapter ${name} cannot be read: ${reason}`)
}
