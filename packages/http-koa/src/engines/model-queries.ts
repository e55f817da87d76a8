import type { Clock, EngineClient, EngineDirectory, EngineInfo } from '@cllm/core'
import { CllmError, within } from '@cllm/core'
import { z } from 'zod'

/** The names of the models in memory. */
export const loadedModels = (directory: EngineDirectory): string[] =>
  directory.list().filter((name) => directory.status(name).state === 'loaded')

/** The information about a model that is known without loading it. */
export async function peekInfo(directory: EngineDirectory, model?: string) {
  const { info, state } = directory.status(model)
  if (info !== undefined || state !== 'loaded') return info
  return await directory.open(model, { peek: true }).info()
}

/**
 * The information about a model. Never loads one.
 *
 * @throws `engine_unavailable` for a model that was never in memory
 */
export async function infoOf(directory: EngineDirectory, model?: string): Promise<EngineInfo> {
  const info = await peekInfo(directory, model)
  if (info !== undefined) return info
  throw neverLoaded(directory, model)
}

/** The engine of a model that is in memory, or undefined. */
export function engineInMemory(directory: EngineDirectory, model?: string) {
  const { name, state } = directory.status(model)
  return state === 'loaded' ? directory.open(name, { peek: true }) : undefined
}

/**
 * The engine of a model that is in memory.
 *
 * @throws `engine_unavailable` if it is not
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

/** The query `?model=` of routes about one model. Default: the server's first model. */
export const modelQuery = z.object({ model: z.string('the name of one model').optional() })

/** A query that {@link modelQuery} has checked. */
export type ModelQuery = z.output<typeof modelQuery>

/** Milliseconds after which an engine that does not answer is unhealthy. */
const patienceMs = 5_000

/**
 * Waits for an engine's answer, but not forever.
 *
 * @param ms - milliseconds; default 5,000
 * @throws `engine_unavailable` when it takes longer
 */
export async function answered<T>(clock: Clock, answer: Promise<T>, ms = patienceMs): Promise<T> {
  return await within(clock, ms, answer, () => {
    throw new CllmError('engine_unavailable', 'The engine does not answer')
  })
}

/** The answer, or undefined if it fails or takes longer than this many milliseconds. */
export const inTime = async <T>(clock: Clock, ms: number, asked: Promise<T>) =>
  await answered(clock, asked, ms).catch(() => undefined)

/** The error if no loaded engine answers. No loaded engine is fine, as models can be loaded on request. */
export async function failureOf(clock: Clock, directory: EngineDirectory) {
  const asked = loadedModels(directory).map(
    async (name) => await answered(clock, directory.open(name, { peek: true }).statistics()),
  )
  if (asked.length === 0) return unusable(directory)
  const answers = await Promise.allSettled(asked)
  const failures = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  return failures.length < asked.length ? undefined : CllmError.from(failures[0])
}

/** The error if no model can be loaded on request, because all of the cluster's workers are unusable. */
export function unusable(directory: EngineDirectory): CllmError | undefined {
  const errors = directory.list().map((name) => directory.status(name).error)
  const areAll = errors.every((error) => error?.code === 'cluster_unavailable')
  return areAll ? errors[0] : undefined
}
