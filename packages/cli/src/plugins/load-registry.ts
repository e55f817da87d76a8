import { createRequire, register } from 'node:module'
import { isAbsolute, resolve } from 'node:path'
import { createLlamaCppPlugin } from '@cllm/backend-llamacpp/plugin'
import { loadPlugins, type PluginEntry, registerPlugin } from '@cllm/host'
import { type Plugin, PluginRegistry } from '@cllm/core'
import { schedulerPlugin } from '@cllm/scheduler'

/**
 * Creates a registry with the built-in policies and backend and the plugins' additions.
 *
 * @param pluginsFolder - from which their names are resolved
 * @param builtIns - plugins to register before them
 * @param limits - memory and cores of a process that runs a model. Default: not limited further
 * @throws the errors of `loadPlugins`
 */
export async function loadRegistry(
  plugins: readonly PluginEntry[],
  pluginsFolder: string,
  builtIns: readonly Plugin[] = [],
  limits?: Parameters<typeof createLlamaCppPlugin>[0],
): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(schedulerPlugin, registry)
  await registerPlugin(createLlamaCppPlugin(limits), registry)
  for (const plugin of builtIns) await registerPlugin(plugin, registry)
  await loadLending(plugins, pluginsFolder, registry)
  return registry
}

/** The built-in policies and the plugins' policies; plugins resolve from the working directory. */
export async function policiesOf(plugins: readonly string[]): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(schedulerPlugin, registry)
  const entries = plugins.map((use) => ({ use }))
  await loadLending(entries, process.cwd(), registry)
  return registry
}

/**
 * Loads plug-ins. A plug-in that is a single file in any folder may import `@cllm/…` and `zod`: if it has no packages
 * of its own, it gets those that cLLM runs with.
 *
 * @param from - the folder from which their names are resolved
 */
export async function loadLending(
  plugins: readonly PluginEntry[],
  from: string,
  registry: PluginRegistry,
): Promise<void> {
  if (!areLent && !plugins.every((plugin) => hasPackages(plugin, from))) {
    areLent = true
    // zod is a dependency of the scheduler's, not of this package.
    const data = [import.meta.url, import.meta.resolve('@cllm/scheduler')]
    register('./lent-packages.js', import.meta.url, { data })
  }
  await loadPlugins(plugins, { from, registry })
}

let areLent = false

/** Whether a plug-in finds `@cllm/core` by itself. A plug-in given by name is installed, with its dependencies. */
function hasPackages({ use }: PluginEntry, folder: string): boolean {
  if (!use.startsWith('.') && !isAbsolute(use)) return true
  try {
    createRequire(resolve(folder, use)).resolve('@cllm/core')
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND'
  }
}
