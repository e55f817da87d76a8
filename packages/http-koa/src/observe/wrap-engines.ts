import type { EngineClient, EngineDirectory } from '@cllm/core'

/** The same models with other clients: `wrap` makes one of each client, once. */
export function wrapEngines(
  directory: EngineDirectory,
  wrap: (client: EngineClient, model: string) => EngineClient,
): EngineDirectory {
  const wrapped = new WeakMap<EngineClient, EngineClient>()
  return {
    list: () => directory.list(),
    nameOf: (id) => directory.nameOf(id),
    status: (id) => directory.status(id),
    unload: async (id) => await directory.unload(id),
    open(id, options) {
      const client = directory.open(id, options)
      const known = wrapped.get(client)
      if (known !== undefined) return known
      const made = wrap(client, directory.nameOf(id))
      wrapped.set(client, made)
      return made
    },
  }
}
