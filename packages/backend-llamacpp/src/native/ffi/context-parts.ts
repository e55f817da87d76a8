import { CllmError } from '@cllm/core'
import { poolingTypes, type RopeOptions } from '../../llamacpp-options.js'
import { kvCacheFormats } from '../../model/kv-cache-type.js'
import { addressOf, encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'
import type { NativeContextOptions, SequenceRun, VectorRun } from '../native-context.js'

/** `llama_flash_attn_type`. */
const flashAttentionTypes = { auto: -1, off: 0, on: 1 } as const

/** The parameters from which llama.cpp makes a context. */
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
 * llama.cpp's threads, which are kept between passes; by default llama.cpp makes and frees a pool in every pass. They
 * poll for the next pass for a short while, then sleep.
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

  /** Frees the pool; only call this after the contexts that use it were freed. */
  dispose(): void {
    this.functions.ggml_threadpool_free(this.native)
  }
}

/**
 * A `llama_batch` in its own memory. JavaScript's buffers stay at their address as long as they are referenced, so
 * llama.cpp reads their content without a copy.
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
  /** llama.cpp takes a list of sequences for each token: here pointers to one number each. */
  readonly #sequenceLists: BigUint64Array
  /** The vectors that llama.cpp reads now, held so that they are not collected. */
  #vectors: Float32Array | undefined

  constructor(
    private readonly capacity: number,
    /** Numbers in the position of a vector: one, or four with M-RoPE. */
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
   * Writes these tokens, in place of the previous content.
   * @throws CllmError `backend_failed` if they do not fit
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
   * Takes vectors in place of tokens, and returns the batch that refers to them. They are not copied, as they take
   * megabytes.
   * @throws CllmError `backend_failed` if they do not fit
   */
  writeVectors({ sequence, position, count, vectors, shape }: VectorRun): Value<'llama_batch'> {
    const tokens = Array.from({ length: count }, () => 0)
    this.write([{ sequence, position, tokens, outputs: [] }])
    if (this.planes > 1) this.#writePlanes(position, count, shape)
    // Asked for its buffer, even a short array has one that V8 does not move.
    this.#vectors = new Float32Array(vectors.buffer, vectors.byteOffset, vectors.length)
    return { ...this.native, token: null, embd: addressOf(this.#vectors) }
  }

  /**
   * Writes positions for M-RoPE: the times of all vectors, then their rows, their columns, and zeros. Without a grid,
   * all four are the position.
   */
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

/** At least the size of a `ggml_tensor`. */
const bytes = 1024

/**
 * The callback that llama.cpp calls after each operation of a forward pass to ask whether to abort it. llama.cpp's own
 * threads call it, which cannot call JavaScript. So the callback is ggml's function `ggml_is_empty`, which tells
 * whether one of a tensor's dimensions is 0. Its data, the tensor, is memory in which all numbers are 1, or 0 to
 * abort, wherever the dimensions are in it.
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
