import { type EngineClient, type EngineDirectory, overriding } from '@cllm/core'

/** The same models with wrapped clients: `wrap` is called once per client. */
export function wrapEngines(
  directory: EngineDirectory,
  wrap: (client: EngineClient, model: string) => EngineClient,
): EngineDirectory {
  const wrapped = new WeakMap<EngineClient, EngineClient>()
  return overriding(directory, {
    open(id, options) {
      const client = directory.open(id, options)
      const known = wrapped.get(client)
      if (known !== undefined) return known
      const made = wrap(client, directory.nameOf(id))
      wrapped.set(client, made)
      return made
    },
  })
}
