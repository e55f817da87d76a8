import { createServer } from '@cllm/host'
import { systemClock } from '@cllm/core'
import {
  HOLD_FOLDER,
  KEY_STORE,
  koaTransport,
  LOG_LEVEL,
  type LogLevelControl,
  MODEL_STORE,
  Services,
  SHARED_BATCHES,
  STARTED_AT,
} from '@cllm/http-koa'
import { holdFolders } from '../../batches/hold-folder.js'
import { loadConfig, type LoadedConfig } from '../../config/load-config.js'
import { toPresets } from '../../config/presets.js'
import { createProtocols } from '../../http/create-protocols.js'
import { openKeyRing, type OpenKeyRing } from '../../keys/open-key-ring.js'
import type { LevelledLogger } from '../../process/logger.js'
import type { Served } from '../../models/served/served.js'
import type { LoadingParts } from '../../models/served/loadable-models.js'
import { withChosenModel } from '../../models/choose-model.js'
import { servedPool } from '../../models/served/served-pool.js'
import type { Tracing } from '../../tracing/start-tracing.js'
import { toTransportOptions } from '../../http/to-transport-options.js'
import type { CommandIo } from '../command-io.js'
import { whatNext } from './what-next.js'
import { prepareServing, type ServingParts } from './prepare-serving.js'
import { stopped } from '../../process/stop-signal.js'

/**
 * `cllm serve`: runs until the signal is aborted, or the engine of a single model dies and cannot be
 * started again.
 */
export async function serve(argv: readonly string[], io: CommandIo): Promise<number> {
  const given = loadConfig({ argv, env: io.env })
  // The front of a cluster serves what the workers have.
  const loaded = given.config.cluster.url === null ? await withChosenModel(given, io) : given
  const { config } = loaded
  const parts = await prepareServing(loaded, io, config.cluster.url === null)
  const { logger } = parts

  const { api_key: apiKey, api_keys: file } = config.security
  const models = await servedBy(loaded, io, parts)
  let keys: OpenKeyRing | undefined
  let tracing: Tracing | undefined
  try {
    const sources = { apiKey, file }
    keys =
      models.shared !== undefined && config.cluster.keys
        ? await models.shared.openKeys(sources, logger)
        : openKeyRing(sources, logger)
    tracing = await tracingOf(loaded)
    return await serveModels(models, loaded, { ...parts, keys, tracing }, io)
  } finally {
    keys?.close()
    await models.close()
    // However it ended: what failed last is what is looked for.
    await tracing?.shutdown()
    await parts.crashes.written()
  }
}

interface ServeParts extends ServingParts {
  readonly keys: OpenKeyRing | undefined
  readonly tracing: Tracing | undefined
}

/**
 * Checks certificates, plugins and the address first, because these fail fast. Then fetches and
 * loads models, which may take minutes; until then, requests get 503.
 */
async function serveModels(
  models: Served,
  loaded: LoadedConfig,
  { keys, tracing, registry, logger, level }: ServeParts,
  io: CommandIo,
): Promise<number> {
  const drainSeconds = loaded.config.server.drain_timeout
  const transport = toTransportOptions(loaded.config, keys, models.shared?.limitCounters)
  let isReady = false
  const services = new Services()
    .set(STARTED_AT, systemClock.now())
    .set(LOG_LEVEL, everyLevel(level, models))
    .set(HOLD_FOLDER, holdFolders(logger))
    .set(MODEL_STORE, models.store)
    .set(SHARED_BATCHES, models.shared?.batches)
    .set(KEY_STORE, keys?.store)
  const protocols = [
    ...(tracing === undefined ? [] : [tracing.protocol]),
    ...createProtocols(loaded, registry, services),
  ]
  const server = createServer({
    directory: models.directory,
    presets: toPresets(loaded.config.models.presets),
    transports: [koaTransport({ ...transport, protocols, isReady: () => isReady })],
    clock: systemClock,
    logger,
  })
  const addresses = await server.listen()
  try {
    await firstLoad(models, io.signal)
  } catch (error) {
    await server.close()
    if (io.signal.aborted) return 0
    throw error
  }
  isReady = true
  const listening = addresses.map(({ url }) => `listening on ${url}\n`).join('')
  io.stdout.write(listening + whatNext(addresses[0]?.url ?? '', loaded.config, models))

  const reason = await Promise.race([models.death, stopped(io.signal)])
  if (reason !== undefined) {
    logger.error({ reason }, 'the engine died and cannot be restarted')
    io.stderr.write(`error: The engine died and cannot be restarted: ${reason}\n`)
    await server.close()
    return 1
  }
  logger.info({ seconds: drainSeconds }, 'stopping: running requests may finish')
  await server.close(drainSeconds * 1000)
  return 0
}

/** Nobody waits for these models yet, so a signal to stop ends their loads at once. */
async function firstLoad(models: Served, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const stop = (): void => void models.close()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await models.load()
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** The models of this machine, or of a cluster, whose client is loaded only then. */
async function servedBy(loaded: LoadedConfig, io: CommandIo, parts: LoadingParts): Promise<Served> {
  if (loaded.config.cluster.url === null) return servedPool(loaded, io, parts)
  const { servedByCluster } = await import('../cluster/served-by-cluster.js')
  return await servedByCluster(loaded, parts)
}

/** Loads OpenTelemetry only when tracing is on, as it costs memory and start time. */
async function tracingOf({ config }: LoadedConfig): Promise<Tracing | undefined> {
  const { otlp_endpoint: endpoint } = config.telemetry
  if (endpoint === null) return undefined
  const { startTracing } = await import('../../tracing/start-tracing.js')
  return startTracing(endpoint)
}

/** Sets the log level of this process and of the engines. */
function everyLevel(logger: LevelledLogger, { setLogLevel }: Served): LogLevelControl {
  return {
    get level() {
      return logger.level
    },
    set level(level) {
      logger.level = level
      setLogLevel(level)
    },
  }
}
