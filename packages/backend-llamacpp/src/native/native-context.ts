import type { MediaShape } from '@cllm/core'
import type { KvCacheType } from '../model/kv-cache-type.js'
import type { PoolingType, RopeOptions } from '../llamacpp-options.js'
import type { SamplerFactory } from '../sampling/token-sampler.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** How a context is made. */
export interface NativeContextOptions {
  /** Cells of all sequences together. */
  readonly contextSize: number
  readonly sequences: number
  readonly batchSize: number
  /** Threads of its passes, at most. */
  readonly threads: number
  /** Those that it begins with; default: all. */
  readonly startThreads?: number
  readonly flashAttention: boolean | 'auto'
  readonly kvCacheType: KvCacheType
  /** Computes embeddings; default false. */
  readonly embeddings?: boolean
  /** Of embeddings; default: as the model says. */
  readonly pooling?: PoolingType | undefined
  /** Logits that one forward pass can give out; default: of each token. */
  readonly outputs?: number
  /** Tokens that are computed at once; default: `batchSize`. */
  readonly ubatchSize?: number
  /** Whether all sequences share their cells; default false. */
  readonly kvUnified?: boolean
  readonly rope?: RopeOptions
  /** How long threads poll for work before they sleep, 0 to 100; default 50. */
  readonly poll?: number
}

/** Some tokens of one sequence in a forward pass. */
export interface SequenceRun {
  readonly sequence: number
  /** Of the first token. */
  readonly position: number
  readonly tokens: readonly number[]
  /** The positions whose logits are wanted. */
  readonly outputs: readonly number[]
}

/** Vectors of one sequence, in place of tokens. */
export interface VectorRun {
  readonly sequence: number
  /** Of the first vector. */
  readonly position: number
  readonly count: number
  /** One after the other. */
  readonly vectors: Float32Array
  readonly shape?: MediaShape | undefined
}

/**
 * llama.cpp's context: the KV cells of all sequences and the forward pass. A sequence id that it
 * does not have ends the process.
 */
export interface NativeContext {
  /** Samplers of its own; only of a context whose logits cannot be had. */
  createSamplers?(vocabulary: Vocabulary): SamplerFactory
  /**
   * A forward pass over tokens, which are copied at once. Resolves to false when it was aborted: what it has
   * left in its sequences is to be removed.
   */
  decodeBatch(runs: readonly SequenceRun[]): Promise<boolean>
  disposeSequence(sequence: number): void
  /** False when the model's memory cannot forget a part. */
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean
  /** Copies cells now and their data at the next forward pass. */
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<unknown>
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMinPosition(sequence: number): number
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMaxPosition(sequence: number): number
  /**
   * For a context that was made for embeddings, of up to {@link LoadedModel.embeddingInputs} sequences.
   * A model that compares texts gives one number.
   * @param tokens - up to the end of the sequence's, in the batch
   */
  getEmbedding(tokens: number, sequence: number): Float32Array
  /** The vectors of this many tokens of the batch, from one on, where they are not made into one. */
  getTokenEmbeddings?(first: number, count: number): Float32Array
  getThreads(): number
  dispose(): Promise<void>
}

/** An adapter in llama.cpp's memory; it is freed before its model. */
export interface NativeAdapter {
  free(): void
}

/** An adapter as forward passes apply it. */
export interface AppliedNativeAdapter {
  readonly adapter: NativeAdapter
  readonly scale: number
}

/** A context that gives its logits out. */
export interface LogitsContext extends NativeContext {
  /**
   * The logits of the batch's token with this index, where llama.cpp has them: to be read before the
   * next forward pass. Undefined when they were not asked for.
   */
  logits(batchIndex: number): Float32Array | undefined
  /** The length of the vectors that it takes in place of tokens. */
  readonly vectorSize: number
  /** A forward pass over vectors, in place of tokens, none of whose logits are wanted. */
  decodeVectors(run: VectorRun): Promise<boolean>
  /** Where these logits are in the memory of this process. */
  logitsAddress(batchIndex: number): bigint | undefined
  /** Whether it keeps what it has computed; one that does not has embeddings only. */
  hasMemory(): boolean
  /** Threads of the forward passes from now on, up to as many as the context was made with. */
  setThreads(threads: number): void
  /**
   * Whether the forward pass under way is to end, and any other one while this holds: as far as the CPU
   * computes it.
   */
  setAborting(isAborting: boolean): void
  /** The adapters of the forward passes from now on; freed ones must not be among them. */
  setAdapters(adapters: readonly AppliedNativeAdapter[]): void
  /** Whether positions can be changed: see `shiftSequence`. */
  canShift(): boolean
  /** Moves the tokens of a sequence from position `from` on by `by` positions, to where none is. */
  shiftSequence(sequence: number, from: number, by: number): void
  /** What a sequence holds, or what no cut brings back; undefined where there is no memory for it. */
  saveSequence(
    sequence: number,
    partial: boolean,
    allocate: (bytes: number) => Uint8Array | undefined,
  ): Promise<Uint8Array | undefined>
  /** Puts it back; false where llama.cpp refuses it. Other bytes than were saved may end the process. */
  restoreSequence(sequence: number, state: Uint8Array, partial: boolean): Promise<boolean>
}

/** Whether a context gives its logits out. */
export const givesLogits = (context: NativeContext): context is LogitsContext => 'logits' in context

/**
 * Calls of llama.cpp that other threads make: what they use must not be freed before they have returned, or
 * the process ends.
 */
export class NativeCalls {
  readonly #calls = new Set<Promise<unknown>>()

  /** Waits for calls that have begun, as {@link ended} does. */
  async during<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call)
    try {
      return await call
    } finally {
      this.#calls.delete(call)
    }
  }

  /** Resolves when those that have begun are over, however they end. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#calls)
  }
}

/**
 * The contexts of a model, and what else is being made of it. They use the model's memory: it is freed when
 * they are gone.
 */
export class ModelContexts<Context extends { dispose(): Promise<void> }> {
  readonly #calls = new NativeCalls()
  readonly #contexts = new Set<Context>()
  #ended: Promise<void> | undefined

  /** Makes a context; undefined where it cannot be had. */
  async add(make: () => Promise<Context | undefined>): Promise<Context | undefined> {
    return await this.during(async () => {
      const context = await make()
      if (context !== undefined) this.#contexts.add(context)
      return context
    })
  }

  /** Makes something that needs no end of its own; {@link dispose} waits for it. */
  async during<T>(make: () => Promise<T>): Promise<T> {
    if (this.#ended !== undefined) throw new Error('the model was disposed of')
    return await this.#calls.during(make())
  }

  /** Ends them all; from here on none is made. */
  async dispose(): Promise<void> {
    await (this.#ended ??= this.#end())
  }

  async #end(): Promise<void> {
    await this.#calls.ended()
    for (const context of this.#contexts) await context.dispose()
  }
}
