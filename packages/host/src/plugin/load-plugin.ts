import { existsSync } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Clock, Plugin, PluginHost } from '@cllm/core'
import { CllmError, parseKnown, optionProblems, messageOf, systemClock, within } from '@cllm/core'

/** A plugin as a configuration names it. */
export interface PluginEntry {
  /** A package's name, or a path that starts with `.` or `/`. */
  readonly use: string
  readonly options?: Readonly<Record<string, unknown>>
}

/** Where plugins come from and go to. */
export interface LoadPluginsOptions {
  /** The folder of the configuration file: names and paths are looked up from there. */
  readonly from: string
  readonly registry: PluginHost
  /** Default: real time. */
  readonly clock?: Clock
}

/** Milliseconds that a plugin has to be imported and registered. */
const mostMs = 60_000

/**
 * Finds, checks and registers plugins, in their order.
 *
 * @throws `plugin_not_found`, `plugin_invalid`, `plugin_conflict` or `invalid_configuration`, each
 *   naming the entry and, where it is one, the option
 */
export async function loadPlugins(
  entries: readonly PluginEntry[],
  { from, registry, clock = systemClock }: LoadPluginsOptions,
): Promise<void> {
  for (const { use, options } of entries) {
    const name = `plug-in "${use}"`
    const load = async (): Promise<void> =>
      await registerPlugin(await importPlugin(use, from, name), registry, options, name)
    const late = () => {
      const still = `it is not registered after ${mostMs / 1000} s: a promise of it stays open`
      throw new CllmError('plugin_invalid', `${name}: ${still}`)
    }
    // Without a timer that keeps it alive, a process with nothing else to do would end without a word.
    await within(clock, mostMs, load(), late, { keepsAlive: true })
  }
}

/**
 * Finds a plugin's module and returns the plugin that is its default export.
 *
 * @param use a package's name or a path, looked up from the folder `from`
 * @param name names it in errors
 * @throws `plugin_not_found` or `plugin_invalid`
 */
async function importPlugin(use: string, from: string, name: string): Promise<Plugin> {
  // Imported here, as most processes load no plug-in.
  const { resolveModuleURL } = await import('exsolve')
  const url = resolveModuleURL(isAbsolute(use) ? pathToFileURL(use).href : use, {
    from: pathToFileURL(join(from, 'package.json')),
    extensions: ['.js', '.mjs', '.cjs'],
    suffixes: ['', '/index'],
    cache: false,
    try: true,
  })
  const details = { plugin: use, from }
  if (url === undefined) {
    const isPath = use.startsWith('.') || isAbsolute(use)
    const isThere = existsSync(resolve(from, use))
    const hint = isThere ? `; did you mean "./${use}"?` : ''
    const problem =
      isThere && isPath
        ? 'expected a file, or a folder with index.js, instead got a folder without it'
        : `there is no such package or file, looked up from ${from}${hint}`
    throw new CllmError('plugin_not_found', `${name}: ${problem}`, { details })
  }
  let module: { default?: unknown }
  try {
    module = (await import(url)) as { default?: unknown }
  } catch (error) {
    const message = `${name}: it cannot be loaded: ${messageOf(error)}`
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

/**
 * Checks a plugin's options and lets it register. `name` names it in errors.
 *
 * @throws `invalid_configuration` for options, `plugin_conflict` or `plugin_invalid`
 */
export async function registerPlugin(
  plugin: Plugin,
  registry: PluginHost,
  options: Readonly<Record<string, unknown>> = {},
  name: string = plugin.name,
): Promise<void> {
  const parsed = parseOptions(plugin, options, name)
  try {
    await plugin.register(registry, parsed)
  } catch (error) {
    const { code, message, details } = CllmError.from(error, 'plugin_invalid')
    throw new CllmError(code, `${name}: ${message}`, { details, cause: error })
  }
}

function parseOptions(plugin: Plugin, options: Readonly<Record<string, unknown>>, name: string) {
  try {
    return parseKnown(plugin.options, options)
  } catch (cause) {
    const problems = optionProblems(cause)
    const details = { plugin: plugin.name, problems }
    const message = `${name}: ${problems.join('; ')}`
    throw new CllmError('invalid_configuration', message, { details, cause })
  }
}
