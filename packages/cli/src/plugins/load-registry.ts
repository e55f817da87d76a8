import { createLlamaCppPlugin } from '@cllm/backend-llamacpp/plugin'
import { loadPlugins, type PluginEntry, registerPlugin } from '@cllm/host'
import { type Plugin, PluginRegistry } from '@cllm/core'
import { schedulerPlugin } from '@cllm/scheduler'
import { lendPackages } from './lend-packages.js'

/** The plugins to load, and the folder from which their names are resolved. */
export interface PluginsToLoad {
  readonly plugins: readonly PluginEntry[]
  readonly pluginsFolder: string
}

/** Settings that differ between a server's process and an engine's. */
export interface RegistryOptions {
  /** Memory and cores of a process that runs a model. Default: not limited further. */
  readonly limits?: Parameters<typeof createLlamaCppPlugin>[0]
  /** Plugins to register before the configured ones. Default: none. */
  readonly builtIns?: readonly Plugin[]
}

/**
 * Creates a registry with the built-in policies and backend and the plugins' additions.
 *
 * @throws the errors of `loadPlugins`
 */
export async function loadRegistry(
  { plugins, pluginsFolder }: PluginsToLoad,
  { limits, builtIns = [] }: RegistryOptions = {},
): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(schedulerPlugin, registry)
  await registerPlugin(createLlamaCppPlugin(limits), registry)
  for (const plugin of builtIns) await registerPlugin(plugin, registry)
  lendPackages(plugins, pluginsFolder)
  await loadPlugins(plugins, { from: pluginsFolder, registry })
  return registry
}
