import { existsSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Plugin, CllmError } from '@cllm/core'

/**
 * Finds a plugin's module and returns the plugin that is its default export.
 *
 * @param use a package's name or a path, looked up from the folder `from`
 * @param name names it in errors
 * @throws `plugin_not_found` or `plugin_invalid`
 */
export async function importPlugin(use: string, from: string, name: string): Promise<Plugin> {
  // Most processes load no plugin.
  const { resolveModuleURL } = await import('exsolve')
  const url = resolveModuleURL(isAbsolute(use) ? pathToFileURL(use).href : use, {
    from: pathToFileURL(join(from, 'package.json')),
    extensions: ['.js', '.mjs', '.cjs'],
    suffixes: ['', '/index'],
    cache: false,
    try: true,
  })
  if (url === undefined) {
    const isPath = use.startsWith('.') || isAbsolute(use)
    const hint = !isPath && existsSync(join(from, use)) ? `; did you mean "./${use}"?` : ''
    throw new CllmError(
      'plugin_not_found',
      `${name}: there is no such package or file, looked up from ${from}${hint}`,
      { details: { plugin: use, from } },
    )
  }
  let module: { default?: unknown }
  try {
    module = (await import(url)) as { default?: unknown }
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const details = { plugin: use, from }
    const message = `${name}: it cannot be loaded: ${reason}`
    throw new CllmError('plugin_not_found', message, { details, cause: error })
  }
  return checkPlugin(module.default, name)
}

function checkPlugin(value: unknown, name: string): Plugin {
  const invalid = (what: string) => new CllmError('plugin_invalid', `${name}: ${what}`)
  if (typeof value !== 'object' || value === null) {
    throw invalid('expected a default export made with definePlugin')
  }
  const plugin = value as Partial<Plugin>
  if (typeof plugin.name !== 'string' || plugin.name === '') {
    throw invalid('expected the plugin to have a name')
  }
  if (plugin.apiVersion !== 1) {
    throw invalid(`expected apiVersion 1, instead got ${String(plugin.apiVersion)}`)
  }
  if (plugin.options !== undefined && typeof plugin.options?.parse !== 'function') {
    throw invalid('expected options to be a schema with a method parse')
  }
  if (typeof plugin.register !== 'function') throw invalid('expected register to be a function')
  return plugin as Plugin
}
