import { CllmError } from '@cllm/core'
import { poolingTypes, type RopeOptions } from '../../llamacpp-options.js'
import { kvCacheFormats } from '../../model/kv-cache-type.js'
import { addressOf, encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'
import type { NativeContextOptions, SequenceRun, VectorRun } from '../native-context.js'

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
    threads: number,
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

/**
 * A `llama_batch` over memory of its own. Buffers of JavaScript stay where they are as long as they
 * are referred to, so llama.cpp reads what was written here without a copy.
 */
export class TokenBatch {
  /** The C struct, which refers to this batch: hold on to the batch while llama.cpp uses it. */
  readonly native: Value<'llama_batch'>
  /** Whether the logits of each token are wanted. */
  readonly outputs: Int8Array
  readonly #tokens: Int32Array
  readonly #positions: Int32Array
  readonly #sequences: Int32Array
  readonly #sequenceCounts: Int32Array
  /** llama.cpp wants a list of sequences for each token: pointers to one number each. */
  readonly #sequenceLists: BigUint64Array
  /** Held while llama.cpp reads them. */
  #vectors: Float32Array | undefined

  constructor(
    private readonly capacity: number,
    /** Numbers of a vector's position: one, or four with M-RoPE. */
    private readonly planes: number = 1,
  ) {
    const integers = () => new Int32Array(new ArrayBuffer(4 * capacity))
    this.#tokens = integers()
    this.#positions = new Int32Array(new ArrayBuffer(4 * planes * capacity))
    this.#sequences = integers()
    this.#sequenceCounts = integers().fill(1)
    this.#sequenceLists = new BigUint64Array(new ArrayBuffer(8 * capacity))
    this.outputs = new Int8Array(new ArrayBuffer(capacity))
    const first = BigInt(addressOf(this.#sequences) ?? 0)
    for (let at = 0; at < capacity; at++) this.#sequenceLists[at] = first + BigInt(4 * at)
    this.native = {
      n_tokens: 0,
      token: addressOf(this.#tokens),
      embd: null,
      pos: addressOf(this.#positions),
      n_seq_id: addressOf(this.#sequenceCounts),
      seq_id: addressOf(this.#sequenceLists),
      logits: addressOf(this.outputs),
    }
  }

  /**
   * Writes these tokens in place of others.
   * @throws CllmError `backend_failed` when there is no room for them
   */
  write(runs: readonly SequenceRun[]): void {
    let end = 0
    for (const { sequence, position, tokens, outputs } of runs) {
      const first = end
      end += tokens.length
      if (end > this.capacity) {
        const message = `expected at most ${this.capacity} tokens in a batch, got ${end} or more`
        throw new CllmError('backend_failed', message)
      }
      this.#tokens.set(tokens, first)
      this.#sequences.fill(sequence, first, end)
      this.outputs.fill(0, first, end)
      for (let at = first; at < end; at++) this.#positions[at] = position + at - first
      for (const output of outputs) this.outputs[first + output - position] = 1
    }
    this.native.n_tokens = end
  }

  /**
   * Takes vectors, in place of tokens, and returns the batch that refers to them: they are megabytes, and stay where
   * they are.
   * @throws CllmError `backend_failed` when there is no room for them
   */
  writeVectors({ sequence, position, count, vectors, shape }: VectorRun): Value<'llama_batch'> {
    const tokens = Array.from({ length: count }, () => 0)
    this.write([{ sequence, position, tokens, outputs: [] }])
    if (this.planes > 1) this.#writePlanes(position, count, shape)
    // Asked for its buffer, even a short array has one that V8 does not move.
    this.#vectors = new Float32Array(vectors.buffer, vectors.byteOffset, vectors.length)
    return { ...this.native, token: null, embd: addressOf(this.#vectors) }
  }

  /** M-RoPE: time, row, column and nothing, each of all vectors; where there is no grid, all four are the position. */
  #writePlanes(position: number, count: number, shape: VectorRun['shape']): void {
    const { columns, skipped = 0 } = shape ?? {}
    for (let at = 0; at < count; at++) {
      const nth = skipped + at
      const [time, row, column] =
        columns === undefined ? [at, at, at] : [0, Math.floor(nth / columns), nth % columns]
      this.#positions[at] = position + time
      this.#positions[count + at] = position + row
      this.#positions[2 * count + at] = position + column
      this.#positions[3 * count + at] = columns === undefined ? position + time : 0
    }
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
