import type { MediaShape } from '@cllm/core'
import type { KvCacheType } from '../model/kv-cache-type.js'
import type { PoolingType, RopeOptions } from '../llamacpp-options.js'
import type { SamplerFactory } from '../sampling/token-sampler.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** Options of a new context. */
export interface NativeContextOptions {
  /** KV cells of all sequences together. */
  readonly contextSize: number
  readonly sequences: number
  readonly batchSize: number
  /** The most threads of its passes. */
  readonly threads: number
  /** The threads that it begins with; default: all. */
  readonly startThreads?: number
  readonly flashAttention: boolean | 'auto'
  readonly kvCacheType: KvCacheType
  /** Computes embeddings; default false. */
  readonly embeddings?: boolean
  /** How vectors are pooled into an embedding; default: as the model says. */
  readonly pooling?: PoolingType | undefined
  /** Outputs (rows of logits) that one forward pass has room for; default: one for each token. */
  readonly outputs?: number
  /** Tokens that are computed at once; default: `batchSize`. */
  readonly ubatchSize?: number
  /** Whether all sequences share their cells; default false. */
  readonly kvUnified?: boolean
  readonly rope?: RopeOptions
  /** How long threads poll for work before they sleep, 0 to 100; default 5. */
  readonly poll?: number
}

/** The tokens of one sequence in a forward pass. */
export interface SequenceRun {
  readonly sequence: number
  /** The position of the first token. */
  readonly position: number
  readonly tokens: readonly number[]
  /** The positions whose logits are wanted. */
  readonly outputs: readonly number[]
}

/** Vectors of one sequence, in place of tokens. */
export interface VectorRun {
  readonly sequence: number
  /** The position of the first vector. */
  readonly position: number
  readonly count: number
  /** All vectors, concatenated. */
  readonly vectors: Float32Array
  readonly shape?: MediaShape | undefined
}

/**
 * llama.cpp's context: the KV cells of all sequences and the forward pass. An unknown sequence id ends the process.
 */
export interface NativeContext {
  /** Makes the context's own samplers; only present if the context does not expose its logits. */
  createSamplers?(vocabulary: Vocabulary): SamplerFactory
  /**
   * Computes a forward pass over tokens, which are copied before the call returns. Resolves to false if it was aborted:
   * the caller must then remove what the pass has left in its sequences.
   */
  decodeBatch(runs: readonly SequenceRun[]): Promise<boolean>
  disposeSequence(sequence: number): void
  /** Returns false if the model's memory cannot remove a part. */
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean
  /** Copies cells now and their data at the next forward pass. */
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<unknown>
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMinPosition(sequence: number): number
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMaxPosition(sequence: number): number
  /**
   * The embedding of a sequence, in a context for embeddings with up to {@link LoadedModel.embeddingInputs} sequences.
   * A reranker returns one number.
   * @param tokens - the number of tokens in the batch up to the end of this sequence
   */
  getEmbedding(tokens: number, sequence: number): Float32Array
  /** The vectors of `count` tokens of the batch from index `first` on, if the context does not pool them. */
  getTokenEmbeddings?(first: number, count: number): Float32Array
  getThreads(): number
  dispose(): Promise<void>
}

/** An adapter in llama.cpp's memory; it must be freed before its model. */
export interface NativeAdapter {
  free(): void
}

/** An adapter with the scale at which forward passes apply it. */
export interface AppliedNativeAdapter {
  readonly adapter: NativeAdapter
  readonly scale: number
}

/** A context that exposes its logits. */
export interface LogitsContext extends NativeContext {
  /**
   * The logits of the batch's token with this index, in llama.cpp's own memory: read them before the next forward pass.
   * Undefined if they were not asked for.
   */
  logits(batchIndex: number): Float32Array | undefined
  /** The length of the vectors that the context takes in place of tokens. */
  readonly vectorSize: number
  /** Computes a forward pass over vectors instead of tokens, without logits. */
  decodeVectors(run: VectorRun): Promise<boolean>
  /** The address of these logits in the memory of this process. */
  logitsAddress(batchIndex: number): bigint | undefined
  /** Whether the context has KV memory; without it, only embeddings are possible. */
  hasMemory(): boolean
  /** Sets the threads of the next forward passes, at most as many as the context was made with. */
  setThreads(threads: number): void
  /**
   * Sets whether forward passes end early: the one that is running, and all others until it is set to false. Only stops
   * what the CPU computes.
   */
  setAborting(isAborting: boolean): void
  /** Sets the adapters of the next forward passes; none of them may have been freed. */
  setAdapters(adapters: readonly AppliedNativeAdapter[]): void
  /** Whether tokens can be moved to other positions with {@link shiftSequence}. */
  canShift(): boolean
  /** Moves the tokens of a sequence from position `from` on by `by` positions, to free positions. */
  shiftSequence(sequence: number, from: number, by: number): void
  /**
   * Saves a sequence's state; undefined if there is no memory for it.
   * @param partial - saves only the part that cannot be restored by removing cells, such as a recurrent state
   */
  saveSequence(
    sequence: number,
    partial: boolean,
    allocate: (bytes: number) => Uint8Array | undefined,
  ): Promise<Uint8Array | undefined>
  /** Restores a saved state; false if llama.cpp refuses it. Bytes that were changed since may end the process. */
  restoreSequence(sequence: number, state: Uint8Array, partial: boolean): Promise<boolean>
}

/** Whether a context exposes its logits. */
export const givesLogits = (context: NativeContext): context is LogitsContext => 'logits' in context

/** Ends parts one after the other, the later ones also if an earlier one fails; then throws what failed first. */
export async function endAll(...parts: readonly ({ dispose(): unknown } | undefined)[]) {
  const failures: unknown[] = []
  for (const part of parts) {
    try {
      await part?.dispose()
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length > 0) throw failures[0]
}

/**
 * Tracks llama.cpp's functions that run on other threads: if the memory they use is freed before they return, the
 * process ends.
 */
export class NativeCalls {
  readonly #calls = new Set<Promise<unknown>>()

  /** Tracks a call until it ends, so that {@link ended} waits for it. */
  async during<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call)
    try {
      return await call
    } finally {
      this.#calls.delete(call)
    }
  }

  /** Resolves when all calls that have begun are over, whether they fail or not. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#calls)
  }
}

/**
 * The contexts of a model, and other work that uses the model's memory, which may only be freed after all of them.
 */
export class ModelContexts<Context extends { dispose(): Promise<void> }> {
  readonly #calls = new NativeCalls()
  readonly #contexts = new Set<Context>()
  #ended: Promise<void> | undefined

  /** Makes a context, and keeps it until {@link dispose}; undefined if it cannot be made. */
  async add(make: () => Promise<Context | undefined>): Promise<Context | undefined> {
    return await this.during(async () => {
      const context = await make()
      if (context !== undefined) this.#contexts.add(context)
      return context
    })
  }

  /** Runs other work on the model, which needs no cleanup; {@link dispose} waits for it. */
  async during<T>(make: () => Promise<T>): Promise<T> {
    if (this.#ended !== undefined) throw new Error('the model was disposed of')
    return await this.#calls.during(make())
  }

  /** Disposes of all contexts; from here on no other can be made. */
  async dispose(): Promise<void> {
    await (this.#ended ??= this.#end())
  }

  async #end(): Promise<void> {
    await this.#calls.ended()
    await endAll(...this.#contexts)
  }
}
