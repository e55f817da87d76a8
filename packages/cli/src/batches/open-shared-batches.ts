import { JobQueue, type RedisBus, SharedResults } from '@cllm/cluster'
import type { Logger } from '@cllm/core'
import type { BatchJob, OpenBatches } from '@cllm/http-koa'
import { SharedAnswers } from './shared-answers.js'
import { SharedBatchStore } from './shared-batch-store.js'

/** Batches of a cluster, which are left by closing them. */
export interface OpenSharedBatches extends OpenBatches {
  readonly close: () => Promise<void>
}

/**
 * Opens the batches of a cluster on its server.
 *
 * @throws `cluster_unavailable`
 */
export async function openSharedBatches(bus: RedisBus, logger: Logger): Promise<OpenSharedBatches> {
  const queue = await JobQueue.open<BatchJob>(bus, 'batch', logger)
  const store = new SharedBatchStore(bus)
  return {
    store,
    answers: new SharedAnswers(store, new SharedResults(bus, 'batch:results')),
    queue: {
      isForgetful: false,
      add: async (jobs) => await queue.add(jobs),
      remove: async (id) => await queue.remove(id),
      async process(concurrency, run, onBegin) {
        await queue.process(concurrency, async ({ data }, signal) => await run(data, signal))
        await onBegin()
      },
    },
    close: async () => await queue.close(),
  }
}
