import { type Plugin, type PluginHost, CllmError, droppedOption, optionProblems } from '@cllm/core'
import { importPlugin } from './import-plugin.js'

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
 * @throws `plugin_not_found`, `plugin_invalid`, `plugin_conflict` or `invalid_configuration`, each
 *   naming the entry and, where it is one, the option
 */
export async function loadPlugins(
  entries: readonly PluginEntry[],
  { from, registry }: LoadPluginsOptions,
): Promise<void> {
  for (const [index, { use, options }] of entries.entries()) {
    const name = `plugins[${index}] ("${use}")`
    await registerPlugin(await importPlugin(use, from, name), registry, options, name)
  }
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

function parseOptions(
  plugin: Plugin,
  options: Readonly<Record<string, unknown>>,
  name: string,
): unknown {
  if (plugin.options === undefined) {
    const [first] = Object.keys(options)
    if (first === undefined) return options
    const message = `${name}: option "${first}": the plugin takes no options`
    throw new CllmError('invalid_configuration', message, { details: { plugin: plugin.name } })
  }
  const invalid = (problems: readonly string[], cause?: unknown) => {
    const message = `${name}: ${problems.join('; ')}`
    const details = { plugin: plugin.name, problems }
    return new CllmError('invalid_configuration', message, { details, cause })
  }
  let parsed: unknown
  try {
    parsed = plugin.options.parse(options)
  } catch (error) {
    throw invalid(optionProblems(error), error)
  }
  const dropped = droppedOption(plugin.options, options, parsed)
  if (dropped !== undefined) throw invalid([dropped])
  return parsed
}
