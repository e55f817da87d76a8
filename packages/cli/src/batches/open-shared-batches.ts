import { JobQueue, type RedisBus, SharedResults } from '@cllm/cluster'
import type { Logger } from '@cllm/core'
import type { SharedBatches } from '@cllm/http-koa'
import { type BatchJob, SharedBatchJobs } from './shared-batch-jobs.js'
import { SharedBatchStore } from './shared-batch-store.js'

/** Batches of a cluster, which are left by closing them. */
export interface OpenSharedBatches extends SharedBatches {
  readonly close: () => Promise<void>
}

/**
 * Opens the batches of a cluster on its server.
 *
 * @throws `cluster_unavailable`
 */
export async function openSharedBatches(bus: RedisBus, logger: Logger): Promise<OpenSharedBatches> {
  const queue = await JobQueue.open<BatchJob>(bus, 'batch', logger)
  const results = new SharedResults(bus, 'batch:results')
  return {
    open(parts) {
      const store = new SharedBatchStore(bus)
      return { store, jobs: new SharedBatchJobs({ ...parts, store, results, queue }) }
    },
    close: async () => await queue.close(),
  }
}
