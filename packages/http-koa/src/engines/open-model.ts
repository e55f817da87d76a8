import type { EngineClient, EngineDirectory } from '@cllm/core'

/** A request's model: its name in the answer, and its engine. */
export interface OpenedModel {
  readonly model: string
  readonly client: EngineClient
}

/**
 * The model that a request names, or the server's first one.
 *
 * @throws `model_not_found`
 */
export function openModel(directory: EngineDirectory, model: string | undefined): OpenedModel {
  const client = directory.open(model)
  return { model: model ?? directory.list()[0] ?? '', client }
}
