import { poolingTypes, type RopeOptions } from '../../llamacpp-options.js'
import { kvCacheFormats } from '../../model/kv-cache-type.js'
import { encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'
import type { AbortFlag } from './token-batch.js'
import type { NativeContextOptions } from '../native-context.js'

/** `llama_flash_attn_type`. */
const flashAttentionTypes = { auto: -1, off: 0, on: 1 } as const

/** What llama.cpp makes a context of. */
export function contextParams(
  functions: Pick<NativeFunctions, 'llama_context_default_params'>,
  abort: AbortFlag,
  { contextSize, sequences, batchSize, threads, ...options }: NativeContextOptions,
): Value<'llama_context_params'> {
  const { flashAttention, kvCacheType, embeddings = false, outputs = batchSize } = options
  const { ubatchSize = batchSize, kvUnified = false, rope = {}, pooling } = options
  const { id: cells } = kvCacheFormats[kvCacheType]
  const attention = flashAttention === 'auto' ? 'auto' : flashAttention ? 'on' : 'off'
  return {
    ...functions.llama_context_default_params(),
    n_ctx: contextSize,
    n_batch: batchSize,
    n_ubatch: Math.min(ubatchSize, batchSize),
    n_seq_max: sequences,
    n_outputs_max: Math.min(outputs, batchSize),
    n_threads: threads,
    n_threads_batch: threads,
    flash_attn_type: flashAttentionTypes[attention],
    type_k: cells,
    type_v: cells,
    embeddings,
    swa_full: false,
    kv_unified: kvUnified,
    abort_callback: abort.callback,
    abort_callback_data: abort.data,
    ...ropeParams(rope),
    ...(pooling !== undefined && { pooling_type: poolingTypes[pooling] }),
  }
}

/** `llama_rope_scaling_type`. */
const ropeScalings = { none: 0, linear: 1, yarn: 2 } as const

/** The members of `llama_context_params` that scale positions; those that are not set keep llama.cpp's default. */
function ropeParams({ scaling, freqBase, freqScale, yarnOriginalContext }: RopeOptions) {
  return {
    ...(scaling !== undefined && { rope_scaling_type: ropeScalings[scaling] }),
    ...(freqBase !== undefined && { rope_freq_base: freqBase }),
    ...(freqScale !== undefined && { rope_freq_scale: freqScale }),
    ...(yarnOriginalContext !== undefined && { yarn_orig_ctx: yarnOriginalContext }),
  }
}

/**
 * llama.cpp's threads, which live from pass to pass; left to itself it makes and frees a pool for
 * every pass. They wait for the next pass by polling for a short while, then asleep.
 */
export class ThreadPool {
  readonly native: Pointer

  /** @param poll - how long a thread polls for work before it sleeps, 0 to 100 */
  constructor(
    private readonly functions: NativeFunctions,
    readonly threads: number,
    poll: number,
  ) {
    const params = { ...functions.ggml_threadpool_params_default(threads), poll }
    this.native = functions.ggml_threadpool_new(encodeStruct('ggml_threadpool_params', params))
    if (this.native === null) throw new Error(`llama.cpp could not start ${threads} threads`)
  }

  /** Only after the contexts that compute on it were freed. */
  dispose(): void {
    this.functions.ggml_threadpool_free(this.native)
  }
}
