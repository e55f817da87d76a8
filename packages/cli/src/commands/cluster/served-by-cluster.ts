import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import {
  ClusterDirectory,
  ClusterFront,
  JobQueue,
  type RedisBus,
  RedisStates,
  sharedCounter,
  SharedResults,
} from '@cllm/cluster'
import { AdapterSet, NamedModels } from '@cllm/host'
import { CllmError, type Logger, type PluginRegistry } from '@cllm/core'
import { type BatchJob, limitWindowSeconds, type OpenBatches } from '@cllm/http-koa'
import { SharedAnswers } from '../../batches/shared-answers.js'
import { SharedBatchStore } from '../../batches/shared-batch-store.js'
import { openClusterKeys } from '../../keys/cluster-keys.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { connectBus } from './connect-bus.js'
import type { Served } from '../../models/served/served-pool.js'

/** A name that no other process has or had. */
export const processName = (): string => `${hostname()}-${randomBytes(4).toString('hex')}`

/**
 * The models of a cluster's workers.
 *
 * @throws `cluster_unavailable`, and `invalid_configuration` for the router
 */
export async function servedByCluster(
  { config }: LoadedConfig,
  { registry, logger }: { readonly registry: PluginRegistry; readonly logger: Logger },
): Promise<Served> {
  const { workers, router, router_options: options } = config.cluster
  if (workers > 1) {
    const message = '--workers: the front of a cluster has no engine; `cllm worker` has'
    throw new CllmError('invalid_configuration', message)
  }
  const createRouter = () => registry.routers.create(router, options)
  createRouter()
  const bus = await connectBus(config.cluster, logger)
  const batches = config.cluster.batches ? await openSharedBatches(bus, logger) : undefined
  const front = new ClusterFront({ id: processName(), bus, router: createRouter, logger })
  const models = new ClusterDirectory(front, config.models.aliases)
  const directory = new NamedModels(models, {
    adapterSetOf: (name) => new AdapterSet(models.status(name).info?.adapters),
    fixed: 'the workers of a cluster have the adapters that each is started with: --lora',
  })
  return {
    directory,
    shared: {
      ...(batches && { batches }),
      limitCounters: (unit) => sharedCounter(bus, unit, limitWindowSeconds),
      keepResponses: (how) => new RedisStates(bus, 'responses', how, logger),
      openKeys: async (sources, to) => await openClusterKeys(bus, sources, to),
    },
    load: async () => await front.start(),
    async close() {
      await batches?.close()
      await front.close()
      await bus.close()
    },
    death: new Promise(() => {}),
    setLogLevel: () => {},
  }
}

/** Batches of a cluster, which are left by closing them. */
type OpenSharedBatches = OpenBatches & { readonly close: () => Promise<void> }

/**
 * Opens the batches of a cluster on its server.
 *
 * @throws `cluster_unavailable`
 */
async function openSharedBatches(bus: RedisBus, logger: Logger): Promise<OpenSharedBatches> {
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
