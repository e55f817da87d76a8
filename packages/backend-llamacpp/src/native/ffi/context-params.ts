import type { RopeOptions } from '../../llamacpp-options.js'
import type { KvCacheType } from '../../model/kv-cache-type.js'
import { addressOf, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'
import type { NativeContextOptions } from '../native-context.js'
import { poolingNumber } from '../pooling-types.js'

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

/** `llama_rope_scaling_type`. */
const ropeScalings = { none: 0, linear: 1, yarn: 2 } as const

/** The members of `llama_context_params` that scale positions; those that are not set keep llama.cpp's default. */
export function ropeParams({ scaling, freqBase, freqScale, yarnOriginalContext }: RopeOptions) {
  return {
    ...(scaling !== undefined && { rope_scaling_type: ropeScalings[scaling] }),
    ...(freqBase !== undefined && { rope_freq_base: freqBase }),
    ...(freqScale !== undefined && { rope_freq_scale: freqScale }),
    ...(yarnOriginalContext !== undefined && { yarn_orig_ctx: yarnOriginalContext }),
  }
}

/** As large as any `ggml_tensor`. */
const bytes = 1024

/**
 * What llama.cpp asks after each operation of a forward pass whether to end it. The question is asked by its
 * own threads, from which no JavaScript can be called: so the callback is `ggml_is_empty`, a function of
 * ggml that looks whether one of a tensor's dimensions is 0, and its data is memory in which all numbers
 * are 1 or all are 0, wherever that has its dimensions.
 */
export class AbortFlag {
  readonly #numbers = new BigInt64Array(new ArrayBuffer(bytes)).fill(1n)
  readonly callback: Pointer
  readonly data: Pointer

  constructor({ emptinessOfTensors }: Pick<NativeFunctions, 'emptinessOfTensors'>) {
    this.callback = emptinessOfTensors
    this.data = addressOf(this.#numbers)
  }

  set(isAborting: boolean): void {
    this.#numbers.fill(isAborting ? 0n : 1n)
  }
}
