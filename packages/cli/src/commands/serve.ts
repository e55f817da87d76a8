import { createServer, loadPlugins, PluginRegistry, systemClock } from '@cllm/core'
import { koaTransport, type KeyRing, type KoaProtocol, type LogLevelControl } from '@cllm/http-koa'
import { loadConfig, type LoadedConfig } from '../config/load-config.js'
import { createProtocols } from '../create-protocols.js'
import { CrashFiles, crashFolder } from '../engine/crash-files.js'
import { openKeyRing } from '../keys/open-key-ring.js'
import { createLogger, type LevelledLogger } from '../logger.js'
import { servedPool, type ServedPool } from '../models/served-pool.js'
import type { Tracing } from '../tracing/start-tracing.js'
import { toTransportOptions } from '../to-transport-options.js'
import type { CommandIo } from './command-io.js'

/**
 * `cllm serve`: runs until the signal is aborted, or the engine of a single model dies and cannot be
 * started again.
 */
export async function serve(argv: readonly string[], io: CommandIo): Promise<number> {
  const loaded = loadConfig({ argv, env: io.env })
  const { config } = loaded
  const logger = createLogger(config.logging)
  for (const warning of loaded.warnings) logger.warn({}, warning)

  const { api_key: apiKey, api_keys: file } = config.security
  const keys = openKeyRing({ apiKey, file }, logger)
  const crashes = new CrashFiles(config.recorder.folder ?? crashFolder({ env: io.env }), logger)
  const models = await servedPool(loaded, io, logger, crashes)
  try {
    for (const name of models.preload) await models.pool.load(name)
    return await serveModels(models, loaded, keys, logger, io)
  } finally {
    await models.pool.close()
    keys?.close()
    await crashes.written()
  }
}

async function serveModels(
  models: ServedPool,
  loaded: LoadedConfig,
  keys: KeyRing | undefined,
  logger: LevelledLogger,
  io: CommandIo,
): Promise<number> {
  const drainSeconds = loaded.config.server.drain_timeout
  const tracing = await tracingOf(loaded)
  const protocols = [
    ...(tracing === undefined ? [] : [tracing.protocol]),
    ...createProtocols(loaded, systemClock.now(), everyLevel(logger, models), models.store),
    ...(await pluginProtocols(loaded)),
  ]
  const server = createServer({
    directory: models.pool,
    transports: [koaTransport({ ...toTransportOptions(loaded.config, keys), protocols })],
    clock: systemClock,
    logger,
  })
  for (const { url } of await server.listen()) io.stdout.write(`listening on ${url}\n`)

  const reason = await Promise.race([models.death, aborted(io.signal)])
  if (reason !== undefined) {
    logger.error({ reason }, 'the engine is gone and cannot be started again')
    io.stderr.write(`error: The engine is gone and cannot be started again: ${reason}\n`)
    await server.close()
    return 1
  }
  logger.info({ seconds: drainSeconds }, 'stopping: what runs may finish')
  await server.close(drainSeconds * 1000)
  await tracing?.shutdown()
  return 0
}

/** What OpenTelemetry needs takes memory and time to load. */
async function tracingOf({ config }: LoadedConfig): Promise<Tracing | undefined> {
  const { otlp_endpoint: endpoint } = config.telemetry
  if (endpoint === null) return undefined
  const { startTracing } = await import('../tracing/start-tracing.js')
  return startTracing(endpoint)
}

/** One level for this process and the engines'. */
function everyLevel(logger: LevelledLogger, { setLogLevel }: ServedPool): LogLevelControl {
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

async function pluginProtocols({ config, pluginsFolder }: LoadedConfig): Promise<KoaProtocol[]> {
  const registry = new PluginRegistry()
  await loadPlugins(config.plugins, { from: pluginsFolder, registry })
  return registry.createProtocols()
}

async function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
