import type { EngineClient, EngineDirectory, ModelStatus } from '@cllm/core'
import { resolveModelName } from '../models/resolve-model-name.js'

/** Engines that end with their server. */
export interface ClosableDirectory extends EngineDirectory {
  /** Takes no new requests and resolves when the last is done. */
  drain(): Promise<void>
  /** Ends all engines at once. */
  close(): Promise<void>
}

/** A directory over engines that are there all the time, by name; the first one is the default. */
export class StaticDirectory implements ClosableDirectory {
  readonly #engines: ReadonlyMap<string, EngineClient>

  constructor(engines: Iterable<readonly [string, EngineClient]>) {
    this.#engines = new Map(engines)
  }

  list(): readonly string[] {
    return [...this.#engines.keys()]
  }

  nameOf(id?: string): string {
    return resolveModelName(this.list(), new Map(), id)
  }

  open(id?: string): EngineClient {
    return this.#engines.get(this.nameOf(id))!
  }

  status(id?: string): ModelStatus {
    const name = this.nameOf(id)
    const unknown = { info: undefined, expiresAt: undefined, error: undefined }
    return { name, state: 'loaded', users: 0, waiting: 0, ...unknown }
  }

  async unload(id: string): Promise<void> {
    this.nameOf(id)
  }

  async drain(): Promise<void> {
    await Promise.allSettled(this.#clients().map(async (client) => await client.drain()))
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#clients().map(async (client) => await client.close()))
  }

  #clients(): EngineClient[] {
    return [...this.#engines.values()]
  }
}
