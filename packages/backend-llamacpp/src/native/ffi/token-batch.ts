import { addressOf, type NativeFunctions } from './bind-functions.js'
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
