import { addressOf, encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { Pointer, Value } from './structs.js'

/**
 * A `llama_batch` over memory of its own. Buffers of JavaScript stay where they are as long as they
 * are referred to, so llama.cpp reads what was written here without a copy.
 */
export class TokenBatch {
  readonly capacity: number
  readonly #tokens: Int32Array
  readonly #positions: Int32Array
  readonly #sequences: Int32Array
  readonly #sequenceCounts: Int32Array
  /** llama.cpp wants a list of sequences for each token: pointers to one number each. */
  readonly #sequenceLists: BigUint64Array
  readonly #outputs: Int8Array
  readonly #native: Value<'llama_batch'>
  #size = 0

  constructor(capacity: number) {
    this.capacity = capacity
    this.#tokens = new Int32Array(new ArrayBuffer(4 * capacity))
    this.#positions = new Int32Array(new ArrayBuffer(4 * capacity))
    this.#sequences = new Int32Array(new ArrayBuffer(4 * capacity))
    this.#sequenceCounts = new Int32Array(new ArrayBuffer(4 * capacity)).fill(1)
    this.#sequenceLists = new BigUint64Array(new ArrayBuffer(8 * capacity))
    this.#outputs = new Int8Array(new ArrayBuffer(capacity))
    const first = BigInt(addressOf(this.#sequences) ?? 0)
    for (let at = 0; at < capacity; at++) this.#sequenceLists[at] = first + BigInt(4 * at)
    this.#native = {
      n_tokens: 0,
      token: addressOf(this.#tokens),
      embd: null,
      pos: addressOf(this.#positions),
      n_seq_id: addressOf(this.#sequenceCounts),
      seq_id: addressOf(this.#sequenceLists),
      logits: addressOf(this.#outputs),
    }
  }

  /** The C struct, which refers to this batch: hold on to the batch while llama.cpp uses it. */
  get native(): Value<'llama_batch'> {
    this.#native.n_tokens = this.#size
    return this.#native
  }

  clear(): void {
    this.#size = 0
  }

  /**
   * Adds tokens of one sequence; there is room for them.
   * @param outputs - the positions whose logits are wanted
   */
  add(
    sequence: number,
    position: number,
    tokens: readonly number[],
    outputs: readonly number[],
  ): void {
    const first = this.#size
    this.#size += tokens.length
    this.#tokens.set(tokens, first)
    this.#sequences.fill(sequence, first, this.#size)
    this.#outputs.fill(0, first, this.#size)
    for (let at = 0; at < tokens.length; at++) this.#positions[first + at] = position + at
    for (const output of outputs) this.#outputs[first + output - position] = 1
  }

  get size(): number {
    return this.#size
  }

  /** Whether the logits of this token were asked for. */
  hasOutput(index: number): boolean {
    return index < this.#size && this.#outputs[index] === 1
  }
}

/**
 * llama.cpp's threads, which live from pass to pass; left to itself it makes and frees a pool for
 * every pass. They wait for the next pass by polling for a short while, then asleep.
 */
export class ThreadPool {
  readonly native: Pointer
  readonly threads: number
  readonly #functions: NativeFunctions

  /** @param poll - how long a thread polls for work before it sleeps, 0 to 100 */
  constructor(functions: NativeFunctions, threads: number, poll: number) {
    this.#functions = functions
    this.threads = threads
    const params = { ...functions.ggml_threadpool_params_default(threads), poll }
    this.native = functions.ggml_threadpool_new(encodeStruct('ggml_threadpool_params', params))
    if (this.native === null) throw new Error(`llama.cpp could not start ${threads} threads`)
  }

  /** Only after the contexts that compute on it were freed. */
  dispose(): void {
    this.#functions.ggml_threadpool_free(this.native)
  }
}
