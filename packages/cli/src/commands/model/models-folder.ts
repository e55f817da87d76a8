import type { LoadedConfig } from '../../config/load-config.js'
import { cacheFolder } from '../../models/cache-folder.js'
import { one } from '../flags/flags.js'

/** The flag of the commands that manage models. */
export const configFlag = one(
  'FILE',
  'The YAML file of `cllm serve`, for its `models.cache`; also CLLM_CONFIG',
)

/** The flags of `cllm serve` for this YAML file, or for none. */
export const configFlags = (file: string | undefined): readonly string[] =>
  file === undefined ? [] : ['--config', file]

/** The folder for downloaded models, as `cllm serve` uses it with this configuration. */
export const modelsFolder = ({ config }: LoadedConfig, env: NodeJS.ProcessEnv): string =>
  config.models.cache ?? cacheFolder({ env })
