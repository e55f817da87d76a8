/**
 * Calls of llama.cpp that other threads make: what they use must not be freed before they have returned, or
 * the process ends.
 */
export class NativeCalls {
  readonly #calls = new Set<Promise<unknown>>()

  /** Makes calls; {@link ended} waits for them. */
  async during<T>(make: () => Promise<T>): Promise<T> {
    const call = make()
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
