import type { BackendDefinition } from '../contracts/definition.js'

/** Infers the options of a backend from their schema and returns the definition as it is. */
export function defineBackend<Options>(
  backend: BackendDefinition<Options>,
): BackendDefinition<Options> {
  return backend
}
