import type { Logger } from '@cllm/core'
import { protocolsPlugin } from '@cllm/http-koa'
import type { LoadedConfig } from '../../config/load-config.js'
import { checkFiles } from '../../engine/check-files.js'
import { CrashFiles, crashFolder } from '../../engine/crash-files.js'
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
