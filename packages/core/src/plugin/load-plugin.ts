import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { resolveModuleURL } from 'exsolve'
import type { Plugin, PluginHost } from '../contracts/plugin.js'
import { CllmError } from '../errors/cllm-error.js'

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
}

/**
 * Finds, checks and registers plugins, in their order.
 *
 * @throws `plugin_not_found`, `plugin_invalid` or `invalid_configuration`, each naming the entry
 */
export async function loadPlugins(
  entries: readonly PluginEntry[],
  { from, registry }: LoadPluginsOptions,
): Promise<void> {
  for (const [index, entry] of entries.entries()) {
    const name = `plugins[${index}] ("${entry.use}")`
    const plugin = checkPlugin(await importPlugin(entry.use, from, name), name)
    await registerPlugin(plugin, registry, entry.options ?? {}, name)
  }
}

/** Checks a plugin's options and lets it register. `name` stands for it in errors. */
export async function registerPlugin(
  plugin: Plugin,
  registry: PluginHost,
  options: Readonly<Record<string, unknown>> = {},
  name: string = plugin.name,
): Promise<void> {
  await plugin.register(registry, parseOptions(plugin, options, name))
}

async function importPlugin(use: string, from: string, name: string): Promise<unknown> {
  const base = pathToFileURL(join(from, 'package.json'))
  const url = resolveModuleURL(use, { from: base, try: true })
  if (url === undefined) {
    const message = `${name}: there is no such package or file, looked up from ${from}`
    throw new CllmError('plugin_not_found', message, { details: { plugin: use, from } })
  }
  try {
    return ((await import(url)) as { default?: unknown }).default
  } catch (error) {
    const message = `${name}: it cannot be loaded: ${reason(error)}`
    throw new CllmError('plugin_not_found', message, { details: { plugin: use }, cause: error })
  }
}

function checkPlugin(value: unknown, name: string): Plugin {
  const invalid = (what: string): CllmError => new CllmError('plugin_invalid', `${name}: ${what}`)
  if (typeof value !== 'object' || value === null) {
    throw invalid('expected its default export to be made with definePlugin')
  }
  const plugin = value as Partial<Plugin>
  if (typeof plugin.name !== 'string') throw invalid('expected its name to be a text')
  if (plugin.apiVersion !== 1) {
    throw invalid(`expected apiVersion 1, instead got ${String(plugin.apiVersion)}`)
  }
  if (typeof plugin.register !== 'function') throw invalid('expected register to be a function')
  return plugin as Plugin
}

function parseOptions(
  plugin: Plugin,
  options: Readonly<Record<string, unknown>>,
  name: string,
): unknown {
  if (plugin.options === undefined) {
    const [first] = Object.keys(options)
    if (first === undefined) return options
    throw new CllmError('invalid_configuration', `${name}: option "${first}": it has no options`)
  }
  try {
    return plugin.options.parse(options)
  } catch (error) {
    const problems = issues(error)
    const details = { plugin: plugin.name, problems }
    const message = `${name}: ${problems.join('; ')}`
    throw new CllmError('invalid_configuration', message, { details, cause: error })
  }
}

/** The issues of zod and its like, each with its option; of other errors the message. */
function issues(error: unknown): string[] {
  const found = (error as { issues?: unknown }).issues
  if (!Array.isArray(found)) return [reason(error)]
  return found.map((issue: { path?: readonly PropertyKey[]; message?: string }) => {
    const path = (issue.path ?? []).map(String).join('.')
    return path === '' ? String(issue.message) : `option "${path}": ${issue.message}`
  })
}

const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error))
