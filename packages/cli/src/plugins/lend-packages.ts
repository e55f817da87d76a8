import { createRequire, register } from 'node:module'
import { isAbsolute, resolve } from 'node:path'
import type { PluginEntry } from '@cllm/host'

let areLent = false

/**
 * Lets plug-ins that are one file in any folder import `@cllm/…` and `zod`: where they have no packages of
 * their own, they get those that cLLM runs with.
 *
 * @param folder from which the plug-ins' paths are resolved
 */
export function lendPackages(plugins: readonly PluginEntry[], folder: string): void {
  if (areLent || plugins.every((plugin) => hasPackages(plugin, folder))) return
  areLent = true
  // zod is a dependency of the scheduler's, not of this package.
  const data = [import.meta.url, import.meta.resolve('@cllm/scheduler')]
  register('./lent-packages.js', import.meta.url, { data })
}

/** Whether a plug-in finds `@cllm/core` by itself. What is given by name is installed, with what it needs. */
function hasPackages({ use }: PluginEntry, folder: string): boolean {
  if (!use.startsWith('.') && !isAbsolute(use)) return true
  try {
    createRequire(resolve(folder, use)).resolve('@cllm/core')
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND'
  }
}
