import type { EngineClient, EngineDirectory } from '../contracts/engine-client.js'
import { CllmError } from '../errors/cllm-error.js'

/** A directory over engines that are known by name; the first one is the default. */
export class EngineMap implements EngineDirectory {
  readonly #engines: ReadonlyMap<string, EngineClient>

  constructor(engines: Iterable<readonly [string, EngineClient]>) {
    this.#engines = new Map(engines)
  }

  list(): readonly string[] {
    return [...this.#engines.keys()]
  }

  open(id?: string): EngineClient {
    const [first] = this.#engines.keys()
    const engine = this.#engines.get(id ?? first ?? '')
    if (engine !== undefined) return engine
    const names = this.list().join(', ')
    throw new CllmError('model_not_found', `model: expected one of ${names}, instead got "${id}"`)
  }

  /** All of them. */
  clients(): EngineClient[] {
    return [...this.#engines.values()]
  }
}
