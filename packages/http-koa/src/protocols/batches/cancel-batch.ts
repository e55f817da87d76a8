import type { Clock } from '@cllm/core'
import { type BatchObject, isUnderWay } from './batch-objects.js'
import type { BatchJobs, BatchStore } from './batch-store.js'

/** What {@link cancelBatch} needs. */
export interface CancelBatchParts {
  readonly store: BatchStore
  readonly jobs: Pick<BatchJobs, 'stop'>
  readonly clock: Clock
}

/**
 * Ends a batch that is under way; what is answered stays.
 *
 * @param errors - why, where nobody has asked for it
 * @returns the batch as it is then, and whether it was under way; undefined where there is none
 */
export async function cancelBatch(
  id: string,
  { store, jobs, clock }: CancelBatchParts,
  errors?: BatchObject['errors'],
): Promise<{ readonly batch: BatchObject; readonly wasUnderWay: boolean } | undefined> {
  const now = Math.floor(clock.now() / 1000)
  let wasUnderWay = false
  const changed = await store.update(id, (batch) => {
    wasUnderWay = isUnderWay(batch)
    if (!wasUnderWay) return undefined
    return { status: 'cancelling', cancelling_at: now, ...(errors && { errors }) }
  })
  if (wasUnderWay) await jobs.stop(id)
  return changed && { batch: changed.object, wasUnderWay }
}

/** Why a batch ends whose key was removed. */
export const keyIsGone: NonNullable<BatchObject['errors']> = {
  object: 'list',
  data: [
    {
      code: 'unauthenticated',
      message: 'The API key that asked for this batch is valid no longer',
      line: null,
      param: null,
    },
  ],
}
