import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { RedisBus, ClusterDirectory, ClusterFront, RedisStates, sharedCounter } from '@cllm/cluster'
import { type Logger, CllmError, defined } from '@cllm/core'
import { AdapterSet, NamedModels } from '@cllm/host'
import { limitWindowSeconds } from '@cllm/http-koa'
import { readAuthority } from '../../config/paths.js'
import type { CllmConfig } from '../../config/options/schema.js'
import { openSharedBatches } from '../../batches/shared-batches.js'
import { openClusterKeys } from '../../keys/cluster-keys.js'
import type { LoadedConfig } from '../../config/load-config.js'
import type { LoadingParts } from '../../models/served/loadable-models.js'
import type { Served } from '../../models/served/served-pool.js'

/**
 * Connects to the server of the configured cluster.
 *
 * @throws `cluster_unavailable`, and `invalid_configuration` for a file that cannot be read
 */
export async function connectBus({ url, ca }: CllmConfig['cluster'], logger?: Logger) {
  const authority = ca === null ? undefined : readAuthority(ca)
  return await RedisBus.connect({ url: url ?? '', ...defined({ ca: authority, logger }) })
}

/** {@link connectBus}, and closes it after use. */
export async function usingBus<T>(
  cluster: CllmConfig['cluster'],
  use: (bus: RedisBus) => Promise<T>,
): Promise<T> {
  const bus = await connectBus(cluster)
  try {
    return await use(bus)
  } finally {
    await bus.close()
  }
}

/** Paths of settings for processes that load models. */
const ofWorkers = /^(model|engine|scheduler\.policy)\b/

/** A name that no other process has or had. */
export const processName = (): string => `${hostname()}-${randomBytes(4).toString('hex')}`

/**
 * The models of a cluster's workers.
 *
 * @throws `cluster_unavailable`, and `invalid_configuration` for the router
 */
export async function servedByCluster(
  { config, sources }: LoadedConfig,
  { registry, logger }: LoadingParts,
): Promise<Served> {
  const { workers, router, router_options: options } = config.cluster
  if (workers > 1) {
    const message = '--workers: the front of a cluster has no engine; `cllm worker` has'
    throw new CllmError('invalid_configuration', message)
  }
  // No error: one file may be for fronts and workers.
  const idle = [...sources].flatMap(([path, source]) =>
    source !== 'default' && ofWorkers.test(path) ? [path] : [],
  )
  if (idle.length > 0) logger.warn({ settings: idle }, 'settings of workers do nothing at a front')
  const createRouter = () => registry.routers.create(router, options)
  createRouter()
  const bus = await connectBus(config.cluster, logger)
  const batches = config.cluster.batches
    ? await openSharedBatches(bus, logger).catch(async (error: unknown) => {
        await bus.close()
        throw error
      })
    : undefined
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
