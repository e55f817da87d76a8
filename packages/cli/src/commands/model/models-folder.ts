import { loadConfig, type LoadedConfig } from '../../config/load-config.js'
import { modelsFolder } from '../../models/cache-folder.js'
import type { CommandIo } from '../command-io.js'
import { one } from '../flags/flags.js'

/** The flag of the commands that manage models. */
export const configFlag = one(
  'FILE',
  'The YAML file of `cllm serve`, for its `models.cache`; also CLLM_CONFIG',
)

/**
 * The configuration that `cllm serve` would have, as far as these flags say; those that are not given are left out.
 */
export function configFrom(
  flags: Readonly<Record<string, string | undefined>>,
  { env }: CommandIo,
): LoadedConfig {
  const argv = Object.entries(flags).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, value],
  )
  return loadConfig({ argv, env, listens: false })
}

/** {@link modelsFolder} of the file that a flag names. */
export const folderFrom = (
  { config }: { readonly config: string | undefined },
  io: CommandIo,
): string => modelsFolder(configFrom({ config }, io), io.env)
