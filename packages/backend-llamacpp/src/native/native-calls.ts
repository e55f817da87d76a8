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
