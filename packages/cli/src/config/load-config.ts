import path from 'node:path'
import { CllmError } from '@cllm/core'
import convict from 'convict'
import { checkBuiltIns, checkSecurity, checkTogether, warnOfModels } from './check-settings.js'
import {
  configVariable,
  readEnvironmentLayer,
  type Layer,
  type Setting,
  readFlagsLayer,
  type Settings,
} from './layers.js'
import { readFileLayer } from './file-layer.js'
import { options, type PlacedOption, schema, type CllmConfig } from './options/schema.js'
import { resolveModels, resolvePolicy } from './resolve-policy.js'
import { describeValue, reasonOf } from './messages.js'
import { readNamed } from './paths.js'
import { accepts, isRecord } from './options/value-format.js'

/** The input of {@link loadConfig}. */
export interface ConfigInput {
  /** The flags, without the command's name. */
  readonly argv: readonly string[]
  /** The names of the command's other flags, which it has read. Default: none. */
  readonly own?: readonly string[]
  readonly env: NodeJS.ProcessEnv
  /** Whether the command opens a server, whose address and keys are checked then. Default: true. */
  readonly listens?: boolean
  /** Base folder for relative paths in flags and the environment. Default: this process's. */
  readonly cwd?: string
  /** Settings that a program passes; they override all others. Default: none. */
  readonly given?: readonly Layer[]
  /** Reads the text of a file. Default: from the disk. */
  readonly readFile?: (file: string) => string
}

/** The effective configuration. */
export interface LoadedConfig {
  readonly config: CllmConfig
  /**
   * Where each option's value came from, by its path: `default`, `cllm.yaml:3`, `CLLM_PORT` or
   * `--port`.
   */
  readonly sources: ReadonlyMap<string, string>
  /** Warnings that do not prevent the start. */
  readonly warnings: readonly string[]
  /** The YAML file, if there is one. */
  readonly file: string | undefined
  /** Folder from which plugin names are resolved. */
  readonly pluginsFolder: string
}

/** The layer of the file, empty without a file. Messages call the file `name`. */
const readLayer = (name: string | undefined, file: string, readFile: (file: string) => string) => {
  if (name === undefined) return { settings: [], problems: [], warnings: [] }
  try {
    return readFileLayer(readFile(file), name)
  } catch (error) {
    const problem = `the configuration file ${name} cannot be read: ${reasonOf(error)}`
    return { settings: [], problems: [problem], warnings: [] }
  }
}

const defaults: Settings = new Map(
  options.map((option) => [
    option.path,
    { path: option.path, value: option.default, source: 'default', label: option.path },
  ]),
)

const merge = (layers: readonly Layer[]) => {
  const settings = new Map(defaults)
  const given = layers.map((layer) => layer.settings)
  for (const setting of given.flat()) settings.set(setting.path, setting)
  const resolved = [resolvePolicy(given, defaults), resolveModels(given, defaults)]
  for (const setting of resolved.flatMap((one) => one.settings)) settings.set(setting.path, setting)
  const find = (path: string) => settings.get(path)!
  const hasPlugins = (find('plugins').value as readonly unknown[]).length > 0
  const problems = resolved.flatMap((one) => one.problems)
  return { settings, find, problems: [...problems, ...(hasPlugins ? [] : checkBuiltIns(find))] }
}

/**
 * Whether an option's value has arbitrary keys: convict would read a dot in one, such as a preset's name, as a path.
 * Only such options have an object as their default.
 */
const hasFreeKeys = ({ default: value }: PlacedOption): boolean => isRecord(value)

const toConfig = (settings: Settings): CllmConfig => {
  const config = convict<CllmConfig>(schema, { env: {}, args: [] })
  const set = ({ path }: PlacedOption) => config.set(path, settings.get(path)!.value)
  for (const option of options) if (!hasFreeKeys(option)) set(option)
  config.validate({ allowed: 'strict' })
  for (const option of options) if (hasFreeKeys(option)) set(option)
  return config.getProperties()
}

const failure = (problems: readonly string[]): CllmError => {
  const count = problems.length === 1 ? 'a problem' : `${problems.length} problems`
  const message = [`The configuration has ${count}:`, ...problems].join('\n  ')
  return new CllmError('invalid_configuration', message, { details: { problems } })
}

/**
 * The effective configuration: defaults, overridden by a YAML file (`--config`, `CLLM_CONFIG`),
 * overridden by the environment (`CLLM_…`), overridden by flags.
 *
 * @throws `invalid_configuration` with all problems in `details.problems`.
 */
export const loadConfig = ({
  argv,
  own,
  env,
  listens = true,
  cwd = process.cwd(),
  given = [],
  readFile = readNamed,
}: ConfigInput): LoadedConfig => {
  const flags = readFlagsLayer(argv, own)
  const file = flags.file ?? (env[configVariable] || undefined)
  const filePath = path.resolve(cwd, file ?? '')
  const fileFolder = path.dirname(filePath)
  const fileLayer = checkLayer(readLayer(file, filePath, readFile), fileFolder)
  const others = [readEnvironmentLayer(env), flags, ...given]
  const layers = [fileLayer, ...others.map((layer) => checkLayer(layer, cwd))]
  const { settings, find, problems: conflicts } = merge(layers)

  const problems = [...layers.flatMap((layer) => layer.problems), ...conflicts]
  const isOriginal = fileLayer.isOriginal === true
  const security = listens ? checkSecurity(find, isOriginal) : { problems: [], warnings: [] }
  if (problems.length === 0) problems.push(...checkTogether(find), ...security.problems)
  if (problems.length > 0) throw failure(problems)
  return {
    config: toConfig(settings),
    sources: new Map([...settings].map(([name, { source }]) => [name, source])),
    warnings: [
      ...layers.flatMap((one) => one.warnings),
      ...security.warnings,
      ...warnOfModels(find),
    ],
    file,
    pluginsFolder: fileLayer.settings.includes(find('plugins')) ? fileFolder : cwd,
  }
}

const byPath: ReadonlyMap<string, PlacedOption> = new Map(
  options.map((option) => [option.path, option]),
)

/**
 * Checks the values of a layer and makes its relative paths absolute. Every invalid setting becomes
 * a problem.
 */
const checkLayer = (layer: Layer, folder: string): Layer => {
  const settings: Setting[] = []
  const problems = [...layer.problems]
  for (const setting of layer.settings) {
    const { format, isSecret, normalize, resolve } = byPath.get(setting.path)!
    const value = normalize(setting.value)
    if (accepts(format, value)) {
      settings.push({ ...setting, value: resolve(value, folder) })
    } else {
      const got = isSecret ? '' : `, got ${describeValue(setting.value)}`
      problems.push(`${setting.label}: expected ${format.expected}${got}`)
    }
  }
  return { ...layer, settings, problems }
}
