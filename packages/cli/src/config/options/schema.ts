import { replaceableParts } from '@cllm/core'
import { clusterOptions, securityOptions, serverOptions } from './server-options.js'
import { cacheOptions, schedulerOptions } from './scheduler-options.js'
import { requestDefaults, severalModelsOptions } from './model-options.js'
import { engineOptions, modelOptions } from './engine-options.js'
import { file, folder, option, type OptionValues, placeOptions } from './option.js'
import { resolvePluginName } from '../paths.js'
import {
  decimal,
  emptyToNone,
  integer,
  isRecord,
  oneOf,
  orNone,
  pairs,
  plugins,
  text,
  toggle,
} from './value-format.js'
import { defaultRecorderOptions } from '@cllm/host'

/** The options of tracing: the branch `telemetry` of the schema. */
const telemetryOptions = {
  otlp_endpoint: option(orNone(text('a URL')), null, {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    normalize: emptyToNone,
  }).describe(
    'Base URL of an OTLP collector for traces over HTTP, such as `http://127.0.0.1:4318`.',
  ),
}

/** The options of the flight recorder: the branch `recorder` of the schema. */
const recorderOptions = {
  minutes: option(decimal(0, Infinity, 'minutes'), defaultRecorderOptions.windowMs / 60_000, {
    flag: 'recorder-minutes',
  }).describe(
    'Minutes of requests and steps, without any text, in the flight recorder, for `GET ' +
      '/admin/recorder` and crash files. 0 turns it off.',
  ),
  size: option(integer(65_536, Infinity, 'BYTES'), defaultRecorderOptions.maxBytes, {
    flag: 'recorder-size',
  }).describe(
    'Approximate memory limit of the recorder, in bytes; the oldest entries are dropped first.',
  ),
  folder: folder({ flag: 'recorder-folder' }).describe(
    'Folder for the recordings of the last eight engine crashes; by default one in the ' +
      "user's state folder.",
  ),
}

const normalizePlugin = (entry: unknown): unknown => {
  if (typeof entry === 'string') return { use: entry, options: {} }
  return isRecord(entry) ? { ...entry, options: entry['options'] ?? {} } : entry
}

/**
 * Every setting of cLLM. Flags, environment variables, YAML keys, help and
 * `docs/configuration.md` are generated from this tree.
 */
export const schema = {
  server: serverOptions,
  model: modelOptions,
  engine: engineOptions,
  cache: cacheOptions,
  scheduler: schedulerOptions,
  api: {
    defaults: requestDefaults,
  },
  security: securityOptions,
  recorder: recorderOptions,
  telemetry: telemetryOptions,
  plugins: option(plugins(), [], {
    flag: 'plugin',
    env: 'CLLM_PLUGINS',
    normalize: (value) => (Array.isArray(value) ? value.map(normalizePlugin) : value),
    resolve: (entries, folder) =>
      entries.map((entry) => ({ ...entry, use: resolvePluginName(entry.use, folder) })),
  }).describe(
    'Plugins to load, by package name or path (`./mine.js`); in YAML, each is a name or ' +
      '`{ use, options }`. The flag can be repeated and replaces the list in the file.',
  ),
  use: option(pairs('parts with the names of their replacements', 'PART=NAME'), {}).describe(
    "Plugins' replacements for built-in parts: `PART=NAME`, where PART is one of " +
      `${Object.keys(replaceableParts).join(', ')}. The flag can be repeated.`,
  ),
  logging: {
    level: option(oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent']), 'info', {
      flag: 'log-level',
    }).describe('Lowest level of log lines.'),
    file: file({ flag: 'log-file' }).describe(
      'File for log lines, which are appended, instead of standard error.',
    ),
    content: option(toggle(), false, { flag: 'log-content' }).describe(
      'Include text from clients in log lines, such as why a body was refused.',
    ),
  },
  models: severalModelsOptions,
  cluster: clusterOptions,
}

/** The effective configuration: the schema's tree with a value for every option. */
export type CllmConfig = OptionValues<typeof schema>

export type { PlacedOption } from './option.js'

/** All options of the schema with their paths, in its order. */
export const options = placeOptions(schema)

/** The section of an option, such as `api.defaults`. */
export const sectionOf = (path: string): string =>
  path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : path
