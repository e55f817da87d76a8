import { createServer, loadPlugins, PluginRegistry, systemClock } from '@cllm/core'
import { koaTransport, type KeyRing, type KoaProtocol, type LogLevelControl } from '@cllm/http-koa'
import { loadConfig, type LoadedConfig } from '../config/load-config.js'
import { createProtocols } from '../create-protocols.js'
import { CrashFiles, crashFolder } from '../engine/crash-files.js'
import { spawnEngine, type EngineProcess } from '../engine/spawn-engine.js'
import { toEngineSettings } from '../engine/to-engine-settings.js'
import { openKeyRing } from '../keys/open-key-ring.js'
import { createLogger, type LevelledLogger } from '../logger.js'
import { progressDisplay } from '../models/progress-bar.js'
import { resolveModel, type ResolvedModel } from '../models/resolve-model.js'
import type { Tracing } from '../tracing/start-tracing.js'
import { toTransportOptions } from '../to-transport-options.js'
import type { CommandIo } from './command-io.js'

/**
 * `cllm serve`: runs until the signal is aborted, or the engine dies and cannot be started again.
 */
export async function serve(argv: readonly string[], io: CommandIo): Promise<number> {
  const loaded = loadConfig({ argv, env: io.env })
  const { config } = loaded
  const logger = createLogger(config.logging)
  for (const warning of loaded.warnings) logger.warn({}, warning)

  const { api_key: apiKey, api_keys: file } = config.security
  const keys = openKeyRing({ apiKey, file }, logger)
  const model = await fetchModel(config.model.spec, config.models.cache, io)
  const settings = toEngineSettings(loaded, model)
  const supervisor = { hangTimeoutMs: config.engine.hang_timeout * 1000 }
  const { folder, minutes, size } = config.recorder
  const crashes = new CrashFiles(folder ?? crashFolder({ env: io.env }), logger)
  const recorder = { windowMs: minutes * 60_000, maxBytes: size, onCrash: crashes.keep }
  const surroundings = { env: io.env, signal: io.signal, logger, supervisor, recorder }
  const engine = await spawnEngine(settings, surroundings)
  try {
    return await serveEngine(engine, loaded, keys, logger, io)
  } finally {
    engine.kill()
    keys?.close()
    await crashes.written()
  }
}

async function serveEngine(
  engine: EngineProcess,
  loaded: LoadedConfig,
  keys: KeyRing | undefined,
  logger: LevelledLogger,
  io: CommandIo,
): Promise<number> {
  const drainSeconds = loaded.config.server.drain_timeout
  const tracing = await tracingOf(loaded)
  const protocols = [
    ...(tracing === undefined ? [] : [tracing.protocol]),
    ...createProtocols(loaded, systemClock.now(), everyLevel(logger, engine)),
    ...(await pluginProtocols(loaded)),
  ]
  const server = createServer({
    engines: { [engine.info.model.id]: engine.client },
    transports: [koaTransport({ ...toTransportOptions(loaded.config, keys), protocols })],
    clock: systemClock,
    logger,
  })
  for (const { url } of await server.listen()) io.stdout.write(`listening on ${url}\n`)

  const death = await Promise.race([engine.ended, aborted(io.signal)])
  if (death !== undefined) {
    logger.error({ reason: death }, 'the engine is gone and cannot be started again')
    io.stderr.write(`error: The engine is gone and cannot be started again: ${death}\n`)
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

/** One level for both processes. */
function everyLevel(logger: LevelledLogger, engine: EngineProcess): LogLevelControl {
  return {
    get level() {
      return logger.level
    },
    set level(level) {
      logger.level = level
      engine.setLogLevel(level)
    },
  }
}

async function fetchModel(
  spec: string,
  cache: string | null,
  io: CommandIo,
): Promise<ResolvedModel> {
  const progress = progressDisplay(io.stderr)
  try {
    return await resolveModel(spec, {
      env: io.env,
      signal: io.signal,
      onProgress: progress.show,
      ...(cache === null ? {} : { cacheFolder: cache }),
    })
  } finally {
    progress.close()
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
