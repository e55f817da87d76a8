import type { NativeContext } from './native.js'

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
