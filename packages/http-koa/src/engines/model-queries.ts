import { CllmError, type EngineClient, type EngineDirectory, type EngineInfo } from '@cllm/core'
import { z } from 'zod'

/** The names of the models in memory. */
export const loadedModels = (directory: EngineDirectory): string[] =>
  directory.list().filter((name) => directory.status(name).state === 'loaded')

/** What is known about a model without loading it. */
export async function peekInfo(
  directory: EngineDirectory,
  model?: string,
): Promise<EngineInfo | undefined> {
  const { info, state } = directory.status(model)
  if (info !== undefined || state !== 'loaded') return info
  return await directory.open(model, { peek: true }).info()
}

/**
 * What is known about a model. Never loads one.
 *
 * @throws `engine_unavailable` for a model that was never in memory
 */
export async function infoOf(directory: EngineDirectory, model?: string): Promise<EngineInfo> {
  const info = await peekInfo(directory, model)
  if (info !== undefined) return info
  throw neverLoaded(directory, model)
}

/** The engine of a model that is in memory, or undefined. */
export function engineInMemory(
  directory: EngineDirectory,
  model?: string,
): EngineClient | undefined {
  const { name, state } = directory.status(model)
  return state === 'loaded' ? directory.open(name, { peek: true }) : undefined
}

/**
 * The engine of a model that is in memory.
 *
 * @throws `engine_unavailable` where it is not
 */
export function loadedEngine(directory: EngineDirectory, model?: string): EngineClient {
  const engine = engineInMemory(directory, model)
  if (engine !== undefined) return engine
  throw neverLoaded(directory, model)
}

/** The error for a query about a model that was never in memory. */
export function neverLoaded(directory: EngineDirectory, model?: string): CllmError {
  const { name } = directory.status(model)
  const others = loadedModels(directory)
  const message =
    `The model ${name} is not in memory, and looking at it does not load it; ` +
    (others.length === 0 ? 'no engine is loaded' : `?model= takes ${others.join(', ')}`)
  return new CllmError('engine_unavailable', message, { details: { model: name } })
}

/** The query `?model=` of routes about one model. Default: the server's first. */
export const modelQuery = z.object({ model: z.string('the name of one model').optional() })

/** What {@link modelQuery} checks. */
export type ModelQuery = z.output<typeof modelQuery>
