import { type EngineClient, type EngineDirectory, type ModelStatus, CllmError } from '@cllm/core'

/** A directory whose engines are closed with their server. */
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
    await Promise.allSettled(Array.from(this.#clients, async (client) => await client.drain()))
  }

  async close(): Promise<void> {
    await Promise.allSettled(Array.from(this.#clients, async (client) => await client.close()))
  }

  get #clients(): Iterable<EngineClient> {
    return this.#engines.values()
  }
}

/** The alias that matches every unknown name. */
const anyName = '*'

/**
 * The name of the model that `id` means; default: the first. A name may end with `:latest`, as in Ollama's lists.
 * Throws `model_not_found`.
 *
 * @param aliases - model names by alias; null: the first model
 */
export function resolveModelName(
  names: readonly string[],
  aliases: ReadonlyMap<string, string | null>,
  id: string | undefined,
): string {
  const name = id ?? names[0] ?? ''
  if (names.includes(name)) return name
  const untagged = name.replace(/:latest$/, '')
  if (names.includes(untagged)) return untagged
  const alias = [name, untagged, anyName].find((one) => aliases.has(one))
  const meant = alias === undefined ? undefined : (aliases.get(alias) ?? names[0])
  if (meant !== undefined && names.includes(meant)) return meant
  const known = [...names, ...aliases.keys()].join(', ')
  const message = `model: expected one of ${known}, instead got "${name.slice(0, 100)}"`
  throw new CllmError('model_not_found', message, { details: { field: 'model' } })
}

/** The aliases of a model, without `*`. */
export const aliasesOf = (
  name: string,
  [first]: readonly string[],
  aliases: ReadonlyMap<string, string | null>,
): string[] =>
  [...aliases]
    .filter(([alias, meant]) => (meant ?? first) === name && alias !== anyName)
    .map(([alias]) => alias)
