import { decimal, integer, type ValueFormat } from '../options/value-format.js'

/** A key of the original C++ server that sets an option. */
export interface MappedKey {
  /** The option that it sets. */
  readonly path: string
  /** The values that the original accepts, if they differ from the option's. */
  readonly format?: ValueFormat<number>
  readonly convert?: (value: never) => unknown
}

const zeroToAuto = (count: number) => (count === 0 ? 'auto' : count)
const toSeconds = (milliseconds: number) => milliseconds / 1000

/**
 * The original's keys that set an option with another name. If several keys set the same option,
 * the option's own key wins, then the first of these.
 */
export const mappedKeys: ReadonlyMap<string, MappedKey> = new Map<string, MappedKey>([
  ['model.path', { path: 'model.spec' }],
  ['model.max_context_length', { path: 'engine.ctx_size' }],
  ['model.default_max_tokens', { path: 'api.defaults.max_tokens' }],
  ['model.temperature', { path: 'api.defaults.temperature' }],
  ['model.top_k', { path: 'api.defaults.top_k' }],
  ['model.top_p', { path: 'api.defaults.top_p' }],
  ['backend.llama_cpp.n_batch', { path: 'engine.batch_size' }],
  [
    'backend.llama_cpp.n_threads',
    { path: 'engine.threads', format: integer(0, 512), convert: zeroToAuto },
  ],
  ['backend.llama_cpp.n_gpu_layers', { path: 'engine.gpu_layers' }],
  ['backend.llama_cpp.n_seq_max', { path: 'engine.slots' }],
  ['backend.llama_cpp.use_mmap', { path: 'engine.mmap' }],
  ['backend.llama_cpp.use_mlock', { path: 'engine.mlock' }],
  ['queue.max_size', { path: 'scheduler.max_queued_requests' }],
  [
    'http.timeout_ms',
    {
      path: 'scheduler.request_timeout',
      format: decimal(0, Infinity, 'milliseconds'),
      convert: toSeconds,
    },
  ],
])

const section = (prefix: string, keys: string) => keys.split(' ').map((key) => `${prefix}.${key}`)

/** The original's keys that have no effect. */
export const ignoredKeys: ReadonlySet<string> = new Set([
  ...section('server', 'num_threads min_threads use_libtorch'),
  ...section('model', 'quantization vocab_size'),
  ...section('http', 'max_input_tokens'),
  ...['health', 'generate', 'generate_stream', 'encode'].flatMap((name) =>
    section(`api.endpoints.${name}`, 'name path method'),
  ),
  ...section('api.response.content_type', 'json stream'),
  ...section('api.response.headers', 'cache_control connection'),
  ...section('api.defaults', 'prompt'),
  ...section('api.timeouts', 'min max token_factor'),
  ...section(
    'scheduler',
    'max_iterations batch_timeout_ms max_batch_size context_usage_threshold default_temperature ' +
      'default_top_p default_top_k default_max_tokens loop_interval idle_loop_interval ' +
      'wait_poll_interval_ms',
  ),
  ...section(
    'resources',
    'max_batch_size max_context_length kv_cache_max_size kv_cache_max_memory_mb memory_limit_mb',
  ),
  ...section(
    'cache',
    'default_max_size default_max_memory_mb enable_lru enable_memory_limit enable_stats ' +
      'eviction_threshold cleanup_interval',
  ),
  ...section('queue', 'priority_weight'),
  ...section('memory', 'cache_limit_mb monitor_interval_ms'),
  ...section('sampler', 'temperature top_k top_p greedy_threshold'),
  ...section('backend', 'type'),
  ...section('backend.kylin', 'device_backend operator_backend n_threads'),
  ...section('backend.libtorch', 'seq_len_candidates fallback_seq_len'),
  ...section(
    'dynamic_batch_tuner',
    'enabled strategy fixed_batch_size min_batch_size max_batch_size ' +
      'initial_batch_size probing_growth_factor max_probing_attempts time_increase_threshold ' +
      'adjustment_factor validation_interval exploration_interval probe_batch_count ' +
      'validation_batch_count max_consecutive_time_increases',
  ),
  ...section('logging', 'max_size_mb max_files'),
])

/** Whether an ignored key asks for the behaviour that this server always has. */
export const isAlreadySo = (key: string, value: unknown): boolean =>
  key === 'backend.type' && (value === '' || value === 'llama_cpp')
