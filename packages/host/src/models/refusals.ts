import { CllmError } from '@cllm/core'
import type { PooledModel } from './pooled-model.js'

/** Refuses everyone who waits for a model. */
export function refuseWaiters({ waiters }: PooledModel, error: CllmError): void {
  for (const { reject } of waiters) reject(error)
  waiters.clear()
}

/** The model was removed from the pool. */
export function removed({ name }: PooledModel): CllmError {
  const message = `This server does not serve the model ${name} any more`
  return new CllmError('model_not_found', message, { details: { field: 'model' } })
}

/** The reason why a client gave up waiting. */
export function reasonOf(signal: AbortSignal | undefined): CllmError {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason)
    ? reason
    : new CllmError('cancelled', 'The client left before the model was loaded')
}

/** Whether a model that did not fit would fit if the models in memory were unloaded. */
export function mayFit({ details }: CllmError, heldBytes: number): boolean {
  const { total, available } = details
  if (typeof total !== 'number' || typeof available !== 'number' || heldBytes === 0) return true
  return total <= available + heldBytes
}

/** The failure with what the models in memory hold. */
export function explainMemory(error: CllmError, present: readonly PooledModel[]): CllmError {
  const held = present.map(({ name, loaded }) => `${name} ${gigabytes(loaded?.memoryBytes ?? 0)}`)
  const message = `${error.message}; models in memory hold ${held.join(', ')}`
  return new CllmError(error.code, message, { details: error.details, cause: error })
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
