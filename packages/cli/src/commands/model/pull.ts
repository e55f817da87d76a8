import { schemeOf } from '../../config/paths.js'
import { llamaCpp } from '../../engine/engine-settings.js'
import { backendNameOf } from '../../engine/to-engine-settings.js'
import { modelsFolder } from '../../models/cache-folder.js'
import { pullModel } from '../../models/fetch/progress-bar.js'
import { loadRegistry } from '../../plugins/load-registry.js'
import type { CommandIo } from '../command-io.js'
import { defineCommand, type Given } from '../flags/define-command.js'
import { many } from '../flags/flags.js'
import { configFlag, configFrom } from './models-folder.js'

const flags = {
  plugin: many('NAME', "Plug-in, by package name or path (default: the configuration's)"),
  config: configFlag,
}

/** `cllm pull` */
export const run = defineCommand({
  usage: 'pull <model>',
  doc: `
Downloads a model, so that serving it needs no network, and prints the path of its file. The model
is a name from \`cllm models\`, hf:owner/repository[:quantization], or scheme:rest with a plug-in for
the scheme.`,
  flags,
  run: pull,
})

async function pull(
  { flags: { plugin, config: file }, words: [spec = ''] }: Given<typeof flags>,
  io: CommandIo,
): Promise<number> {
  const loaded = configFrom({ config: file, plugin: plugin.join(',') || undefined }, io)
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
