import type { KvCacheType } from '../../model/kv-cache-type.js'
import type { NativeContextOptions } from '../native-context.js'
import { poolingNumber } from '../pooling-types.js'
import type { AbortFlag } from './abort-flag.js'
import type { NativeFunctions } from './bind-functions.js'
import { ropeParams } from './rope-params.js'
import type { Value } from './structs.js'

/** `ggml_type` of the numbers in KV cells. */
const cellTypes: Readonly<Record<KvCacheType, number>> = {
  f32: 0,
  f16: 1,
  q4_0: 2,
  q4_1: 3,
  q5_0: 6,
  q5_1: 7,
  q8_0: 8,
  iq4_nl: 20,
  bf16: 30,
}
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
    type_k: cellTypes[kvCacheType],
    type_v: cellTypes[kvCacheType],
    embeddings,
    swa_full: false,
    kv_unified: kvUnified,
    abort_callback: abort.callback,
    abort_callback_data: abort.data,
    ...ropeParams(rope),
    ...(pooling !== undefined && { pooling_type: poolingNumber(pooling) }),
  }
}
