import { type Logger, ModelPool, systemClock } from '@cllm/core'
import { type ModelStore, parseKeepAlive } from '@cllm/http-koa'
import type { CommandIo } from '../commands/command-io.js'
import type { LoadedConfig } from '../config/load-config.js'
import type { CllmConfig } from '../config/schema.js'
import type { CrashFiles } from '../engine/crash-files.js'
import { CatalogStore } from './catalog-store.js'
import { ServedSources } from './served-sources.js'

/** The models that a server serves. */
export interface ServedPool {
  readonly pool: ModelPool
  /** Fetches further ones into it. */
  readonly store: ModelStore
  /** Those to load before it listens. */
  readonly preload: readonly string[]
  /** Resolves, with why, when a single model is served and its engine is gone for good. */
  readonly death: Promise<string>
  /** Changes what the engines log. */
  readonly setLogLevel: (level: string) => void
}

/** Several models are in memory only as long as somebody uses them. */
const severalMs = 5 * 60_000

/** The models that the configuration names. */
export async function servedPool(
  loaded: LoadedConfig,
  io: CommandIo,
  logger: Logger,
  crashes: CrashFiles,
): Promise<ServedPool> {
  const { config } = loaded
  const sources = new ServedSources(loaded, io, logger, crashes)
  const several = sources.byName()
  const isSingle = several.length === 0
  const models = isSingle ? [await sources.single()] : several
  const names = models.map(({ name }) => name)
  let die: (reason: string) => void
  const death = new Promise<string>((resolve) => (die = resolve))
  const pool = new ModelPool({
    models,
    aliases: aliasesOf(config, names),
    options: optionsOf(config, isSingle),
    clock: systemClock,
    logger,
    onLost: (_, reason) => {
      if (isSingle) die(reason)
    },
  })
  const { preload } = config.models
  return {
    pool,
    store: new CatalogStore(pool, sources, loaded, io),
    death,
    preload: isSingle || preload.includes('*') ? names : preload,
    setLogLevel: (level) => sources.setLogLevel(level),
  }
}

function aliasesOf({ models }: CllmConfig, [first = '']: readonly string[]) {
  return Object.fromEntries(
    Object.entries(models.aliases).map(([alias, name]) => [alias, name ?? first]),
  )
}

function optionsOf({ models, scheduler, engine }: CllmConfig, isSingle: boolean) {
  const { max_loaded: most, keep_alive: keepAlive } = models
  const byDefault = isSingle ? Infinity : severalMs
  return {
    maxLoaded: most === 'auto' ? Infinity : most,
    keepAliveMs: (keepAlive === 'auto' ? undefined : parseKeepAlive(keepAlive)) ?? byDefault,
    maxWaiting: scheduler.max_queued_requests + engine.slots,
  }
}
