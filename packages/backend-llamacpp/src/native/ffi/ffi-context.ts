import { CllmError } from '@cllm/core'
import { type NativeFunctions, onPool, runAsync, viewMemory } from './bind-functions.js'
import { AbortFlag, contextParams, ThreadPool, TokenBatch } from './context-parts.js'
import { FfiAdapter } from './ffi-model.js'
import type { Pointer, Value } from './structs.js'
import {
  type AppliedNativeAdapter,
  type LogitsContext,
  NativeCalls,
  type NativeContextOptions,
  type SequenceRun,
  type VectorRun,
} from '../native-context.js'
import type { GpuShare } from '../native.js'
import { rankPooling } from '../../model/model-shape.js'

/** `LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY`. */
const partialOnly = 1
/** The result of `llama_decode` if the abort callback ended it. */
const aborted = 2

/** `LLAMA_ROPE_TYPE_MROPE` and `LLAMA_ROPE_TYPE_IMROPE`. */
const gridRopes = [8, 40]

/** Options of {@link FfiContext.create}. */
interface FfiContextOptions extends NativeContextOptions {
  /** How much of the model is computed on GPUs. */
  readonly onGpu: GpuShare
}

/**
 * llama.cpp's context, used through the C API: the batch is written into arrays that llama.cpp reads without a copy,
 * the threads live as long as the context, and logits are read in llama.cpp's own memory.
 */
export class FfiContext implements LogitsContext {
  readonly #memory: Pointer
  readonly #batch: TokenBatch
  /** Views of logits by their address: a new view costs more than a lookup, and llama.cpp does not move logits. */
  readonly #logits = new Map<Pointer, Float32Array>()
  readonly #calls = new NativeCalls()
  readonly #decode: (context: Pointer, batch: Value<'llama_batch'>) => Promise<number>
  readonly #synchronize: (context: Pointer) => Promise<void>
  readonly #vocabularySize: number
  readonly #embeddingSize: number
  readonly vectorSize: number
  #freed: Promise<void> | undefined

  private constructor(
    private readonly functions: NativeFunctions,
    private readonly context: Pointer,
    private readonly pool: ThreadPool,
    private readonly abort: AbortFlag,
    private readonly onGpu: GpuShare,
    batchSize: number,
    model: Pointer,
  ) {
    this.#memory = functions.llama_get_memory(context)
    const vocabulary = functions.llama_model_get_vocab(model)
    this.#vocabularySize = functions.llama_vocab_n_tokens(vocabulary)
    this.#embeddingSize = functions.llama_model_n_embd_out(model)
    this.vectorSize = functions.llama_model_n_embd_inp(model)
    const hasGrid = gridRopes.includes(functions.llama_model_rope_type(model))
    this.#batch = new TokenBatch(batchSize, hasGrid ? 4 : 1)
    this.#decode = onPool(functions.llama_decode)
    this.#synchronize = onPool(functions.llama_synchronize)
  }

  /** Makes a context; undefined if llama.cpp cannot. */
  static async create(
    functions: NativeFunctions,
    model: Pointer,
    { onGpu, ...options }: FfiContextOptions,
  ): Promise<FfiContext | undefined> {
    const abort = new AbortFlag(functions)
    const params = contextParams(functions, abort, options)
    const context = await runAsync(functions.llama_init_from_model, model, params)
    if (context === null) return undefined
    const { threads, startThreads = threads, poll = 5, batchSize } = options
    let pool: ThreadPool | undefined
    try {
      pool = new ThreadPool(functions, threads, poll)
      functions.llama_attach_threadpool(context, pool.native, pool.native)
      functions.llama_set_n_threads(context, startThreads, startThreads)
      return new FfiContext(functions, context, pool, abort, onGpu, batchSize, model)
    } catch (error) {
      functions.llama_free(context)
      pool?.dispose()
      throw error
    }
  }

  async decodeBatch(runs: readonly SequenceRun[]): Promise<boolean> {
    const context = this.#context
    this.#batch.write(runs)
    return await this.#calls.during(this.#compute(context, this.#batch.native))
  }

  decodeVectors(run: VectorRun): Promise<boolean> {
    return this.#calls.during(this.#decodeVectors(run))
  }

  async #decodeVectors(run: VectorRun): Promise<boolean> {
    const context = this.#context
    const batch = this.#batch.writeVectors(run)
    const { llama_set_causal_attn: setCausal } = this.functions
    setCausal(context, run.shape?.isWhole !== true)
    try {
      return await this.#compute(context, batch)
    } finally {
      setCausal(context, true)
    }
  }

  async #compute(context: Pointer, batch: Value<'llama_batch'>): Promise<boolean> {
    const { onGpu } = this
    const { llama_decode: decodeHere, llama_synchronize: synchronize } = this.functions
    // If the GPU has all layers, the call only hands the work over, which takes less time than waking a thread.
    const result = onGpu === 'all' ? decodeHere(context, batch) : await this.#decode(context, batch)
    if (result === 0) {
      if (onGpu === 'none') synchronize(context)
      else await this.#synchronize(context)
      return true
    }
    if (result === aborted) return false
    throw failed(
      result === 1
        ? 'llama.cpp found no room for the batch in the KV cache'
        : `llama.cpp could not compute the batch (${result})`,
    )
  }

  logits(index: number): Float32Array | undefined {
    const pointer = this.logitsAddress(index)
    if (pointer === undefined) return undefined
    const known = this.#logits.get(pointer)
    if (known !== undefined) return known
    const view = new Float32Array(viewMemory(pointer, 4 * this.#vocabularySize))
    this.#logits.set(pointer, view)
    return view
  }

  logitsAddress(index: number): bigint | undefined {
    const context = this.#context
    const { native, outputs } = this.#batch
    if (index >= native.n_tokens || outputs[index] !== 1) return undefined
    return this.functions.llama_get_logits_ith(context, index) ?? undefined
  }

  disposeSequence(sequence: number): void {
    this.removeTokenCellsFromSequence(sequence, -1, -1)
  }

  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean {
    return this.functions.llama_memory_seq_rm(this.#cells, sequence, start, end)
  }

  async copySequenceStateFromOtherSequence(target: number, source: number): Promise<void> {
    this.functions.llama_memory_seq_cp(this.#cells, source, target, -1, -1)
  }

  getSequenceKvCacheMinPosition(sequence: number): number {
    return this.functions.llama_memory_seq_pos_min(this.#cells, sequence)
  }

  getSequenceKvCacheMaxPosition(sequence: number): number {
    return this.functions.llama_memory_seq_pos_max(this.#cells, sequence)
  }

  async saveSequence(
    sequence: number,
    partial: boolean,
    allocate: (bytes: number) => Uint8Array | undefined,
  ): Promise<Uint8Array | undefined> {
    const context = this.#context
    const { llama_state_seq_get_size_ext: sizeOf, llama_state_seq_get_data_ext: get } =
      this.functions
    const flags = partial ? partialOnly : 0
    const size = sizeOf(context, sequence, flags)
    const state = size === 0 ? undefined : allocate(size)?.subarray(0, size)
    if (state === undefined) return undefined
    const writing = runAsync(get, context, state, size, sequence, flags)
    return (await this.#calls.during(writing)) === size ? state : undefined
  }

  async restoreSequence(sequence: number, state: Uint8Array, partial: boolean): Promise<boolean> {
    const { llama_state_seq_set_data_ext: set } = this.functions
    const flags = partial ? partialOnly : 0
    const { byteLength: size } = state
    const reading = runAsync(set, this.#context, state, size, sequence, flags)
    return (await this.#calls.during(reading)) === size
  }

  getEmbedding(tokens: number, sequence: number): Float32Array {
    const context = this.#context
    const { functions } = this
    const pooling = functions.llama_pooling_type(context)
    const pointer =
      pooling !== 0
        ? functions.llama_get_embeddings_seq(context, sequence)
        : functions.llama_get_embeddings_ith(context, tokens - 1)
    if (pointer === null) throw failed('llama.cpp gave no embedding')
    // of a reranker's numbers the first tells how well the texts fit
    const size = pooling === rankPooling ? 1 : this.#embeddingSize
    return new Float32Array(viewMemory(pointer, 4 * size)).slice()
  }

  getTokenEmbeddings(first: number, count: number): Float32Array {
    const context = this.#context
    const size = this.#embeddingSize
    const vectors = new Float32Array(count * size)
    for (let nth = 0; nth < count; nth++) {
      const pointer = this.functions.llama_get_embeddings_ith(context, first + nth)
      if (pointer === null) throw failed('llama.cpp gave no embedding')
      vectors.set(new Float32Array(viewMemory(pointer, 4 * size)), nth * size)
    }
    return vectors
  }

  getThreads(): number {
    return this.functions.llama_n_threads(this.#context)
  }

  setThreads(threads: number): void {
    this.functions.llama_set_n_threads(this.#context, threads, threads)
  }

  setAdapters(adapters: readonly AppliedNativeAdapter[]): void {
    const context = this.#context
    const pointers = new BigUint64Array(new ArrayBuffer(8 * adapters.length))
    const scales = new Float32Array(new ArrayBuffer(4 * adapters.length))
    for (const [index, { adapter, scale }] of adapters.entries()) {
      if (!(adapter instanceof FfiAdapter)) throw failed('the adapter is not one of this library')
      pointers[index] = adapter.native
      scales[index] = scale
    }
    const { llama_set_adapters_lora: set } = this.functions
    const result = set(context, pointers, adapters.length, scales)
    if (result !== 0) throw failed(`llama.cpp could not apply the adapters (${result})`)
  }

  setAborting(isAborting: boolean): void {
    this.abort.set(isAborting)
  }

  hasMemory(): boolean {
    return this.#memory !== null
  }

  canShift(): boolean {
    return this.functions.llama_memory_can_shift(this.#cells)
  }

  shiftSequence(sequence: number, from: number, by: number): void {
    this.functions.llama_memory_seq_add(this.#cells, sequence, from, -1, by)
  }

  /** Frees the context, after a running forward pass has ended. */
  async dispose(): Promise<void> {
    await (this.#freed ??= this.#free())
  }

  async #free(): Promise<void> {
    await this.#calls.ended()
    this.#logits.clear()
    await runAsync(this.functions.llama_free, this.context)
    this.pool.dispose()
  }

  /** The C pointer for calls; throws after the context was disposed of. */
  get #context(): Pointer {
    this.#check()
    return this.context
  }

  /** The C pointer to the sequences' memory; throws after the context was disposed of. */
  get #cells(): Pointer {
    this.#check()
    return this.#memory
  }

  #check(): void {
    if (this.#freed !== undefined) throw failed('the context was disposed of')
  }
}

const failed = (message: string): CllmError => new CllmError('backend_failed', message)
