import { loadConfig } from '../../config/load-config.js'
import { schemeOf } from '../../config/paths.js'
import { backendNameOf, llamaCpp } from '../../engine/to-engine-settings.js'
import { pullModel } from '../../models/pull-model.js'
import { loadRegistry } from '../../plugins/load-registry.js'
import type { CommandIo } from '../command-io.js'
import { configFlags, configOption, configOptionHelp, modelsFolder } from './models-folder.js'
import { parseCommand } from '../flags/parse-command.js'

const usage = `Usage: cllm pull <model> [--plugin NAME] [--config FILE]

Downloads a model, so that serving it needs no network, and prints the path of its file.

  <model>         A name that \`cllm models\` lists, hf:owner/repository[:quantization], or
                  scheme:rest with a plug-in that provides the scheme
  --plugin NAME   A plug-in, by package name or path, as \`cllm serve\` takes it; can be repeated.
                  Default: those of the YAML file, or CLLM_PLUGINS
${configOptionHelp}
`

/** `cllm pull` */
export async function run(argv: string[], io: CommandIo): Promise<number> {
  const options = { plugin: { type: 'string', multiple: true }, ...configOption } as const
  const parsed = parseCommand(argv, io, { usage, options, words: ['<model>'] })
  if (parsed === undefined) return 0
  const [spec = ''] = parsed.positionals
  const { plugin = [], config: file } = parsed.values
  const flags = plugin.flatMap((name) => ['--plugin', name])
  const loaded = loadConfig({ argv: [...configFlags(file), ...flags], env: io.env })
  const { plugins } = loaded.config
  // Other models need no plug-in, so one that cannot be loaded does not stand in their way.
  const registry = hasOtherScheme(spec) ? await loadRegistry({ ...loaded, plugins }) : undefined
  const { path } = await pullModel(spec, io.stderr, {
    env: io.env,
    signal: io.signal,
    cacheFolder: modelsFolder(loaded, io.env),
    mustBeGguf: backendNameOf(loaded.config, {}) === llamaCpp,
    ...(registry === undefined ? {} : { sources: registry.modelSources() }),
  })
  io.stdout.write(`${path}\n`)
  return 0
}

const hasOtherScheme = (spec: string): boolean => ![undefined, 'hf'].includes(schemeOf(spec))
