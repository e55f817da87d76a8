import type { AdapterChoice, AdapterInfo, AdapterSource } from '@cllm/core'

/**
 * The adapters that every engine of a model is to have, one after the other: those that it is
 * configured with, and those that were loaded and not unloaded since.
 */
export class AdapterSet {
  readonly #sources = new Map<string, AdapterInfo>()
  #wanted: readonly AdapterChoice[] = []
  /** What a request is computed with that names neither adapters nor a model with one. */
  defaults: readonly AdapterChoice[] = []

  /** @param configured - numbered in their order where they have no number */
  constructor(configured: Iterable<AdapterSource> = []) {
    for (const { id = this.#sources.size, scale = 1, ...source } of configured) {
      this.add({ id, scale, ...source })
    }
  }

  /** By their numbers. */
  get sources(): readonly AdapterInfo[] {
    return [...this.#sources.values()].toSorted((a, b) => a.id - b.id)
  }

  /** Whether there is an adapter of this name. */
  has(name: string): boolean {
    return this.#sources.has(name)
  }

  /** An adapter was loaded. */
  add(info: AdapterInfo): void {
    this.#sources.set(info.name, info)
    this.setDefaults(this.#wanted)
  }

  /** An adapter was unloaded. */
  delete(name: string): void {
    this.#sources.delete(name)
    this.setDefaults(this.#wanted)
  }

  /** Sets {@link defaults}; adapters are given by name, and count while they are there. */
  setDefaults(choices: readonly AdapterChoice[]): void {
    this.#wanted = choices
    this.defaults = choices.filter(({ adapter }) => this.#sources.has(String(adapter)))
  }
}
