import { createServer, type Server } from '@cllm/host'
import { type Logger, systemClock, type TransportAddress } from '@cllm/core'
import {
  HOLD_FOLDER,
  KEY_STORE,
  type KoaProtocol,
  koaTransport,
  LOG_LEVEL,
  MODEL_STORE,
  MCP_SERVERS,
  Services,
  SHARED_BATCHES,
  STARTED_AT,
  STORED_RESPONSES,
} from '@cllm/http-koa'
import { holdFolders } from '../../batches/hold-folder.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { toPresets } from '../../config/served-models.js'
import { createProtocols, responsesIn, toTransportOptions } from '../../api/http-options.js'
import { hasMediaLibrary } from '../../engine/native-library.js'
import { openKeyRing, type OpenKeyRing } from '../../keys/keys.js'
import { withChosenModel } from '../../models/choose-model.js'
import { type Served, servedPool } from '../../models/served/served-pool.js'
import { everyLevel, tellUncaught } from '../../process/logger.js'
import type { Tracing } from './tracing.js'
import type { CommandIo } from '../command.js'
import { prepareServing } from './prepare-serving.js'

/** What a program adds to the server that the configuration describes. */
export interface ServingExtras {
  /** Protocols before all others. Default: none. */
  readonly protocols?: readonly KoaProtocol[]
  /** Default: what the configuration says. */
  readonly logger?: Logger
  /** Whether the process is another program's, whose uncaught errors are not told here. Default: no. */
  readonly isGuest?: boolean
}

/** A server that listens and has loaded its first models. */
export interface Serving {
  readonly addresses: readonly TransportAddress[]
  readonly directory: Server['directory']
  readonly logger: Logger
  /** Resolves with the reason when it cannot go on, such as without its single engine. */
  readonly death: Promise<string>
  /** Lets running requests finish for at most this many milliseconds, and ends everything. */
  close(graceMs?: number): Promise<void>
}

/**
 * Starts the server that the configuration describes: checks certificates, plug-ins and the address
 * first, because these fail fast, then fetches and loads models, which may take minutes; until then,
 * requests get 503. When the signal is aborted meanwhile, it throws the reason.
 */
export async function startServing(
  given: LoadedConfig,
  io: CommandIo,
  extras: ServingExtras = {},
): Promise<Serving> {
  // The front of a cluster serves what the workers have.
  const isFront = given.config.cluster.url !== null
  const loaded = isFront ? given : await withChosenModel(given, io)
  const { config } = loaded
  const parts = await prepareServing(loaded, io, !isFront, extras.logger)
  const { logger } = parts
  let models: Served
  if (isFront) {
    // Imported only here, as it loads the client of a cluster.
    const { servedByCluster } = await import('../cluster/join-cluster.js')
    models = await servedByCluster(loaded, parts)
  } else models = servedPool(loaded, io, parts)
  const { shared, directory, death } = models
  const untell = extras.isGuest === true ? () => {} : tellUncaught(logger)
  let [keys, tracing, server]: [OpenKeyRing?, Tracing?, Server?] = []
  const services = new Services()
  const close = async (graceMs?: number): Promise<void> => {
    try {
      await server?.close(graceMs)
    } finally {
      keys?.close()
      await services.get(MCP_SERVERS)?.close()
      await models.close()
      // Whatever has failed: the last requests are the ones that people look for.
      await tracing?.shutdown()
      await parts.crashes.written()
      untell()
    }
  }
  try {
    const sources = { apiKey: config.security.api_key, file: config.security.api_keys }
    const ofCluster = config.cluster.keys ? shared : undefined
    keys = (await ofCluster?.openKeys(sources, logger)) ?? openKeyRing(sources, logger)
    if (config.server.usage === null) await tellUncounted(keys, logger)
    if (config.telemetry.otlp_endpoint !== null) {
      // OpenTelemetry is loaded only when tracing is on, as it costs memory and start time.
      const { startTracing } = await import('./tracing.js')
      tracing = startTracing(config.telemetry.otlp_endpoint)
    }
    services
      .set(STARTED_AT, systemClock.wall())
      .set(LOG_LEVEL, everyLevel(parts.level, models.setLogLevel))
      .set(HOLD_FOLDER, holdFolders(logger))
      .set(MODEL_STORE, models.store)
      .set(SHARED_BATCHES, shared?.batches)
      .set(KEY_STORE, keys?.store)
      .set(STORED_RESPONSES, responsesIn(config, logger, shared))
    const protocols = [
      ...(tracing === undefined ? [] : [tracing.protocol]),
      ...(extras.protocols ?? []),
      ...createProtocols(loaded, parts.registry, services),
    ]
    parts.hasKeys = protocols.some((protocol) => protocol.keys !== undefined)
    const hasLibrary = config.engine.media_library !== null
    const encodes = isFront || hasLibrary || (await hasMediaLibrary(io.env))
    const options = toTransportOptions(config, keys, encodes, shared?.limitCounters)
    let isReady = false
    server = createServer({
      directory,
      presets: toPresets(config.models.presets),
      transports: [koaTransport({ ...options, protocols, isReady: () => isReady })],
      clock: systemClock,
      logger,
    })
    const addresses = await server.listen()
    await firstLoad(models, io.signal)
    isReady = true
    return { addresses, directory, death, logger, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Warns of keys with a monthly limit that is not enforced, as nothing counts their tokens. */
async function tellUncounted(ring: OpenKeyRing | undefined, logger: Logger): Promise<void> {
  const all = (await ring?.store?.list()) ?? []
  const keys = all.filter((key) => key.tokensPerMonth !== undefined).map(({ name }) => name)
  if (keys.length === 0) return
  logger.warn({ keys }, 'keys are not held to their tokens of a month: --usage FOLDER counts them')
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
