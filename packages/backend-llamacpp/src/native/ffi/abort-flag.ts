import { addressOf, type NativeFunctions } from './bind-functions.js'
import type { Pointer } from './structs.js'

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
