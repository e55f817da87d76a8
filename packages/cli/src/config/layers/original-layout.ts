import { readData } from '../read-data.js'
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

/** The original's keys that have no effect. */
export const ignoredKeys: ReadonlySet<string> = new Set(
  Object.entries(readData('ignored-keys') as Readonly<Record<string, readonly string[]>>).flatMap(
    ([section, keys]) => keys.map((key) => `${section}.${key}`),
  ),
)

/** Whether an ignored key asks for the behaviour that this server always has. */
export const isAlreadySo = (key: string, value: unknown): boolean =>
  key === 'backend.type' && (value === '' || value === 'llama_cpp')
