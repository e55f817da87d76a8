import type { NativeAdapter } from '../native-context.js'
import { type NativeFunctions, runAsync } from './bind-functions.js'
import type { FfiModel } from './ffi-model.js'
import type { Pointer } from './structs.js'

/** An adapter that was read through the C API. */
export class FfiAdapter implements NativeAdapter {
  readonly #functions: NativeFunctions
  readonly #model: FfiModel
  readonly #adapter: Pointer
  #isFreed = false

  private constructor(functions: NativeFunctions, model: FfiModel, adapter: Pointer) {
    this.#functions = functions
    this.#model = model
    this.#adapter = adapter
  }

  /** Reads an adapter for a model; undefined where llama.cpp cannot, and its log says why. */
  static async load(
    functions: NativeFunctions,
    model: FfiModel,
    path: string,
  ): Promise<FfiAdapter | undefined> {
    const adapter = await runAsync(functions.llama_adapter_lora_init, model.native, path)
    return adapter === null ? undefined : new FfiAdapter(functions, model, adapter)
  }

  /** For contexts of its model. */
  get native(): bigint {
    if (this.#isFreed || this.#adapter === null) throw new Error('the adapter was freed')
    return this.#adapter
  }

  free(): void {
    // a model frees its adapters with it
    if (this.#isFreed || this.#model.isClosed) return
    this.#isFreed = true
    this.#functions.llama_adapter_lora_free(this.#adapter)
  }
}
