import { adapterSets, type ClosableDirectory, ModelPool, NamedModels } from '@cllm/host'
import type { RedisStatesOptions } from '@cllm/cluster'
import { type Logger, type SharedStates, systemClock } from '@cllm/core'
import {
  type CreateLimitCounter,
  type ModelStore,
  type OpenBatches,
  parseKeepAlive,
} from '@cllm/http-koa'
import type { CommandIo } from '../../commands/command.js'
import type { LoadedConfig } from '../../config/load-config.js'
import type { CllmConfig } from '../../config/options/schema.js'
import type { KeySources, OpenKeyRing } from '../../keys/keys.js'
import { CatalogStore } from '../catalog/catalog-store.js'
import { LoadableModels, type LoadingParts } from './loadable-models.js'

/** What the fronts of a cluster share. */
export interface SharedWithFronts {
  readonly limitCounters: CreateLimitCounter
  /** The cluster's batches, where they are wanted. */
  readonly batches?: OpenBatches
  /** Where responses are kept for all fronts. */
  readonly keepResponses: (how: RedisStatesOptions) => SharedStates
  /** Opens the cluster's keys. Throws `cluster_unavailable`. */
  readonly openKeys: (sources: KeySources, logger: Logger) => Promise<OpenKeyRing>
}

/** The models that a server serves, and how they are loaded and closed. */
export interface Served {
  readonly directory: ClosableDirectory
  /** Fetches further models; absent: these are all. */
  readonly store?: ModelStore
  /** The parts that are shared with other fronts; absent for a server without a cluster. */
  readonly shared?: SharedWithFronts
  /** Loads the models that must be there before requests are served. */
  readonly load: () => Promise<void>
  /** Closes everything, the directory too. */
  readonly close: () => Promise<void>
  /** Resolves with the reason when the server cannot go on, such as without its single engine. */
  readonly death: Promise<string>
  /** Changes the log level of all engines. */
  readonly setLogLevel: (level: string) => void
}

/** Default keep-alive when several models are served, in milliseconds. */
const severalMs = 5 * 60_000

/** Creates the pool of the configured models. */
export function servedPool(loaded: LoadedConfig, io: CommandIo, parts: LoadingParts): Served {
  const { config } = loaded
  const { logger } = parts
  const sources = new LoadableModels(loaded, io, parts)
  const several = sources.byName()
  const isSingle = several.length === 0
  const models = isSingle ? [sources.single()] : several
  const { preload, scheduler, scheduler_options: schedulerOptions } = config.models
  const policy = parts.registry.modelSchedulers.create(scheduler, schedulerOptions)
  const names = models.map(({ name }) => name)
  let die: (reason: string) => void
  const death = new Promise<string>((resolve) => (die = resolve))
  const pool = new ModelPool({
    models,
    aliases: config.models.aliases,
    tags: config.models.tags,
    scheduler: { name: scheduler, policy },
    options: optionsOf(config, isSingle),
    clock: systemClock,
    logger,
    onLost: (_, reason) => {
      if (isSingle) die(reason)
    },
  })
  return {
    directory: new NamedModels(pool, { adapterSetOf: adapterSets(sources.adapterSets) }),
    store: new CatalogStore(pool, sources, loaded, io),
    death,
    async load() {
      // The command reports failures on standard error; a log without a file would repeat them there.
      const isTold = config.logging.file === null
      const first = isSingle || preload.includes('*') ? names : preload
      for (const name of first) await pool.load(name, { isTold })
    },
    close: async () => {
      sources.memory?.remove()
      await pool.close()
    },
    setLogLevel: (level) => sources.setLogLevel(level),
  }
}

function optionsOf({ models, scheduler, engine }: CllmConfig, isSingle: boolean) {
  const { max_loaded: most, keep_alive: keepAlive, autoload } = models
  const byDefault = isSingle ? Infinity : severalMs
  return {
    maxLoaded: most === 'auto' ? Infinity : most,
    autoload,
    keepAliveMs: (keepAlive === 'auto' ? undefined : parseKeepAlive(keepAlive)) ?? byDefault,
    maxWaiting: scheduler.max_queued_requests + engine.slots,
    requestTimeoutMs: scheduler.request_timeout * 1000 || Infinity,
  }
}
