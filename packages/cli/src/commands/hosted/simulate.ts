import { loadPlugins, registerPlugin } from '@cllm/host'
import { PluginRegistry } from '@cllm/core'
import { schedulerPlugin } from '@cllm/scheduler'
import { lendPackages } from '../../plugins/lend-packages.js'
import { simulate } from '../bench/simulate.js'
import type { CommandIo } from '../command-io.js'

/** `cllm simulate` */
export async function run(argv: readonly string[], io: CommandIo): Promise<number> {
  return await simulate(argv, io, policiesOf)
}

/** The built-in policies and the plugins' policies; plugins resolve from the working directory. */
export async function policiesOf(plugins: readonly string[]): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(schedulerPlugin, registry)
  const entries = plugins.map((use) => ({ use }))
  const from = process.cwd()
  lendPackages(entries, from)
  await loadPlugins(entries, { from, registry })
  return registry
}
