import type { NativeAdapter } from '../logits-context.js'
import { type NativeFunctions, runAsync } from './bind-functions.js'
import type { Pointer } from './structs.js'

/** An adapter that was read through the C API. */
export class FfiAdapter implements NativeAdapter {
  readonly #functions: NativeFunctions
  readonly #adapter: Pointer
  #isFreed = false

  private constructor(functions: NativeFunctions, adapter: Pointer) {
    this.#functions = functions
    this.#adapter = adapter
  }

  /** Reads an adapter for a model; undefined where llama.cpp cannot, and its log says why. */
  static async load(
    functions: NativeFunctions,
    model: Pointer,
    path: string,
  ): Promise<FfiAdapter | undefined> {
    const adapter = await runAsync(functions.llama_adapter_lora_init, model, path)
    return adapter === null ? undefined : new FfiAdapter(functions, adapter)
  }

  /** For contexts of its model. */
  get native(): bigint {
    if (this.#isFreed || this.#adapter === null) throw new Error('the adapter was freed')
    return this.#adapter
  }

  free(): void {
    if (this.#isFreed) return
    this.#isFreed = true
    this.#functions.llama_adapter_lora_free(this.#adapter)
  }
}
