import { CllmError, type Clock, type EngineDirectory, within } from '@cllm/core'
import { loadedModels } from './model-queries.js'

/** An engine without an answer for this long is unhealthy. */
const patienceMs = 5_000

/**
 * Waits for an engine's answer, but not for ever.
 *
 * @param ms - milliseconds; default 5,000
 * @throws `engine_unavailable` when it takes longer
 */
export async function answered<T>(clock: Clock, answer: Promise<T>, ms = patienceMs): Promise<T> {
  return await within(clock, ms, answer, () => {
    throw new CllmError('engine_unavailable', 'The engine does not answer')
  })
}

/** What was asked for; undefined when it fails or takes longer than this many milliseconds. */
export async function inTime<T>(
  clock: Clock,
  patienceMs: number,
  asked: Promise<T>,
): Promise<T | undefined> {
  return await answered(clock, asked, patienceMs).catch(() => undefined)
}

/** Why no engine answers. No engine at all is fine: a model can be loaded on request. */
export async function failureOf(
  clock: Clock,
  directory: EngineDirectory,
): Promise<CllmError | undefined> {
  const asked = loadedModels(directory).map(
    async (name) => await answered(clock, directory.open(name, { peek: true }).statistics()),
  )
  if (asked.length === 0) return unusable(directory)
  const answers = await Promise.allSettled(asked)
  const failures = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
  return failures.length < asked.length ? undefined : CllmError.from(failures[0])
}

/** Why no model can be loaded on request: the workers of the cluster that have them cannot be used. */
export function unusable(directory: EngineDirectory): CllmError | undefined {
  const errors = directory.list().map((name) => directory.status(name).error)
  const areAll = errors.every((error) => error?.code === 'cluster_unavailable')
  return areAll ? errors[0] : undefined
}
