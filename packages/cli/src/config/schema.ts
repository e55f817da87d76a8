import { modelOptions } from './model-options.js'
import { recorderOptions, telemetryOptions } from './observe-options.js'
import { option, type OptionValues } from './option.js'
import { resolveModelSpec, resolvePath, resolvePluginName, resolveTemplate } from './paths.js'
import { type ProtocolName, protocolNames } from './protocol-names.js'
import { requestDefaults } from './request-defaults.js'
import { schedulerOptions } from './scheduler-options.js'
import { securityOptions } from './security-options.js'
import {
  decimal,
  integer,
  oneOf,
  orAuto,
  orNone,
  plugins,
  someOf,
  text,
  toggle,
  toggleOrAuto,
  type PluginEntry,
} from './value-format.js'

const emptyToNone = (value: unknown) => (value === '' ? null : value)

const normalizePlugin = (entry: unknown): unknown => {
  if (typeof entry === 'string') return { use: entry, options: {} }
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) return entry
  return { ...entry, options: ('options' in entry ? entry.options : undefined) ?? {} }
}

/**
 * Every setting of cLLM, once: flags, environment variables, YAML keys, help and
 * `docs/configuration.md` are made from this tree.
 */
export const schema = {
  server: {
    host: option({
      doc: 'Address to listen on; `0.0.0.0` for all of the machine.',
      default: '127.0.0.1',
      format: text('an address'),
      arg: 'host',
      placeholder: 'ADDRESS',
    }),
    port: option({
      doc: 'Port to listen on; 0 takes a free one.',
      default: 8080,
      format: integer({ minimum: 0, maximum: 65_535 }),
      arg: 'port',
      placeholder: 'PORT',
    }),
    body_limit: option({
      doc: 'The largest body of a request, in bytes; a larger one is refused with 413.',
      default: 1024 * 1024,
      format: integer({ minimum: 1024 }),
      arg: 'body-limit',
      placeholder: 'BYTES',
    }),
    stream_limit: option({
      doc:
        'Bytes of a streamed answer that may wait for its client to take them; at more it is cut off ' +
        'and its request cancelled.',
      default: 1024 * 1024,
      format: integer({ minimum: 1024 }),
      arg: 'stream-limit',
      placeholder: 'BYTES',
    }),
    protocols: option<readonly ProtocolName[]>({
      doc: 'The APIs that are served; in YAML a list.',
      default: protocolNames,
      format: someOf(protocolNames),
      arg: 'protocols',
      placeholder: 'NAMES',
    }),
    drain_timeout: option({
      doc: 'Seconds that requests under way get to finish when the server is stopped.',
      default: 30,
      format: decimal({ minimum: 0, unit: 'seconds' }),
      arg: 'drain-timeout',
      placeholder: 'SECONDS',
    }),
  },
  model: {
    spec: option({
      doc: 'The model: a GGUF file, `hf:owner/repo[:quant]`, or a name that `cllm models` lists.',
      default: 'tinyllama-1.1b-chat',
      format: text('a model'),
      arg: 'model',
      placeholder: 'SPEC',
      resolve: resolveModelSpec,
    }),
    id: option<string | null>({
      doc: 'The name that clients see; by default made from the spec.',
      default: null,
      format: orNone(text('a name')),
      arg: 'model-id',
      placeholder: 'NAME',
    }),
    chat_template: option<string | null>({
      doc: "A Jinja chat template in place of the model's own: a file, or the template itself.",
      default: null,
      format: orNone(text('a file or a template')),
      arg: 'chat-template',
      placeholder: 'FILE',
      resolve: resolveTemplate,
    }),
  },
  engine: {
    slots: option({
      doc: 'Sequences that are in memory, and so computed together, at once.',
      default: 16,
      format: integer({ minimum: 1, maximum: 256 }),
      arg: 'slots',
      placeholder: 'COUNT',
    }),
    ctx_size: option({
      doc:
        'Tokens per slot, prompt and answer together. `auto` is the smaller of 4,096 and the ' +
        "model's training context; more than that context is clamped with a warning.",
      default: 'auto',
      format: orAuto(integer({ minimum: 1 })),
      arg: 'ctx-size',
      placeholder: 'TOKENS',
    }),
    batch_size: option({
      doc: 'Most tokens computed in one step, over all slots; at least one for each.',
      default: 512,
      format: integer({ minimum: 1, maximum: 65_536 }),
      arg: 'batch-size',
      placeholder: 'TOKENS',
    }),
    threads: option({
      doc: 'Threads that compute; `auto` follows the number of cores.',
      default: 'auto',
      format: orAuto(integer({ minimum: 1, maximum: 512 })),
      arg: 'threads',
      placeholder: 'COUNT',
    }),
    gpu: option({
      doc: 'What computes; `auto` takes what the machine has, `off` is the CPU.',
      default: 'auto',
      format: oneOf(['auto', 'off', 'metal', 'cuda', 'vulkan']),
      arg: 'gpu',
      placeholder: 'auto|off|metal|cuda|vulkan',
    }),
    gpu_layers: option({
      doc:
        "How many of the model's layers are on the GPU, where there is one; more than it has " +
        'means all, `auto` as many as fit.',
      default: 'auto',
      format: orAuto(integer({ minimum: 0 })),
      arg: 'gpu-layers',
      placeholder: 'COUNT',
    }),
    kv_cache_type: option({
      doc: 'How keys and values are kept; `q8_0` takes half the memory and needs flash attention.',
      default: 'f16',
      format: oneOf(['f16', 'q8_0']),
      arg: 'kv-cache-type',
      placeholder: 'f16|q8_0',
    }),
    flash_attention: option({
      doc: 'Flash attention; `auto` uses it where the model allows.',
      default: 'auto',
      format: toggleOrAuto(),
      arg: 'flash-attention',
      placeholder: 'on|off|auto',
    }),
    mmap: option({
      doc: 'Map the model file into memory instead of reading it.',
      default: true,
      format: toggle(),
      arg: 'mmap',
    }),
    mlock: option({
      doc: 'Keep the weights from being swapped out.',
      default: false,
      format: toggle(),
      arg: 'mlock',
    }),
    ignore_memory_check: option({
      doc: 'Load the model even when the memory does not seem to suffice.',
      default: false,
      format: toggle(),
      arg: 'ignore-memory-check',
    }),
    hang_timeout: option({
      doc:
        'Seconds without a step, while work waits, after which the engine is killed and started ' +
        'again; it must be more than the longest step takes. 0 is never.',
      default: 120,
      format: decimal({ minimum: 0, unit: 'seconds' }),
      arg: 'hang-timeout',
      placeholder: 'SECONDS',
    }),
  },
  scheduler: schedulerOptions,
  api: {
    defaults: requestDefaults,
  },
  security: securityOptions,
  recorder: recorderOptions,
  telemetry: telemetryOptions,
  plugins: option<readonly PluginEntry[]>({
    doc:
      'Plugins to load, by package name or path (`./mine.js`); in YAML each a name or ' +
      '`{ use, options }`. The flag can be repeated and replaces the list of the file.',
    default: [],
    format: plugins(),
    arg: 'plugin',
    env: 'CLLM_PLUGINS',
    placeholder: 'NAME',
    normalize: (value) => (Array.isArray(value) ? value.map(normalizePlugin) : value),
    resolve: (entries, folder) =>
      entries.map((entry) => ({ ...entry, use: resolvePluginName(entry.use, folder) })),
  }),
  logging: {
    level: option({
      doc: 'The least important lines that are logged.',
      default: 'info',
      format: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent']),
      arg: 'log-level',
      placeholder: 'trace|debug|info|warn|error|silent',
    }),
    file: option<string | null>({
      doc: 'File that log lines are added to, instead of standard error.',
      default: null,
      format: orNone(text('a file')),
      arg: 'log-file',
      placeholder: 'FILE',
      normalize: emptyToNone,
      resolve: resolvePath,
    }),
    content: option({
      doc: 'Let log lines show what clients sent, such as why a body was refused.',
      default: false,
      format: toggle(),
      arg: 'log-content',
    }),
  },
  models: modelOptions,
}

/** The effective configuration: the schema's tree with a value for every option. */
export type CllmConfig = OptionValues<typeof schema>
