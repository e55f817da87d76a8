import { CllmError } from '@cllm/core'
import type { PooledModel } from './pooled-model.js'

/** Refuses everyone who waits for a model. */
export function refuseWaiters({ waiters }: PooledModel, error: CllmError): void {
  for (const { reject } of waiters) reject(error)
  waiters.clear()
}

/** The server closes. */
export const shuttingDown = (): CllmError =>
  new CllmError('shutting_down', 'The engine takes no new requests')

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
