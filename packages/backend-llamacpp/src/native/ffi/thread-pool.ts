import { encodeStruct, type NativeFunctions } from './bind-functions.js'
import type { Pointer } from './structs.js'

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
