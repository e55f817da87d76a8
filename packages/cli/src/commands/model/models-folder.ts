import { loadConfig } from '../../config/load-config.js'
import { cacheFolder } from '../../models/cache-folder.js'

/** The flag of the commands that manage models, and its line in `--help`. */
export const configOption = { config: { type: 'string' } } as const
export const configOptionHelp =
  '  --config FILE   The YAML file of `cllm serve`, for its `models.cache`; also CLLM_CONFIG'

/**
 * The folder for downloaded models, as `cllm serve` uses it with this YAML file and environment.
 *
 * @throws `invalid_configuration`
 */
export function modelsFolder(file: string | undefined, env: NodeJS.ProcessEnv): string {
  const argv = file === undefined ? [] : ['--config', file]
  return loadConfig({ argv, env }).config.models.cache ?? cacheFolder({ env })
}
