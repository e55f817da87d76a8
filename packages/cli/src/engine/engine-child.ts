import module from 'node:module'
import {
  ADAPTERS,
  type Backend,
  type BackendContext,
  type BackendLimits,
  CllmError,
  createEngine,
  defaultSampling,
  defined,
  type Engine,
  type EngineParts,
  type Logger,
  type PluginRegistry,
  systemClock,
} from '@cllm/core'
import {
  hostEngine,
  SlotFolder,
  StateFolder,
  type StateFolderOptions,
  TouchedMemory,
} from '@cllm/host'
import { fallbackPolicy } from '@cllm/scheduler'
import { createLogger, tellUncaught } from '../process/logger.js'
import { loadRegistry } from '../plugins/load-registry.js'
import { ignoreStopSignals } from '../process/stop-signal.js'
import { availableCores, availableMemory, cacheSize } from './available.js'
import {
  type CacheSettings,
  type EngineSettings,
  llamaCpp,
  type StartMessage,
  parentChannel,
} from './process-channel.js'
import { fingerprintOf, findNativeLibraries } from './native-library.js'
import { openLearned } from './engine-files.js'
import { learnedFolder } from '../models/cache-folder.js'

/** Longer sequences have no drafts where all slots share one large pool of KV cells. */
const longestInPool = 8192

ignoreStopSignals()
process.once('disconnect', () => process.exit(0))
process.once('message', (message) => void start((message as StartMessage).settings))

async function start(settings: EngineSettings): Promise<void> {
  const ownLogger = createLogger(settings.log)
  tellUncaught(ownLogger)
  const channel = parentChannel(process, (level) => {
    ownLogger.level = level
  })
  try {
    const { use, cache = { ram: 0 }, engines = 1 } = settings
    const isLlamaCpp = settings.backendName === llamaCpp
    const built = isLlamaCpp ? await findNativeLibraries(process.env, ownLogger) : undefined
    const registry = await loadRegistry(settings.plugins, settings.pluginsFolder, [], {
      availableMemory: () => availableMemory(settings.heldBytes),
      cores: { cores: availableCores(), engines },
      ...built,
    })
    const policy = registry.createPolicy(settings.policy, settings.policyOptions)
    const logger = registry.createLogger(use, ownLogger)
    const context = { clock: systemClock, logger }
    const backend = await registry.createBackend(settings.backendName, settings.backend, context)
    await warmUp(backend)
    const fingerprint = await fingerprintOf(backend, settings.backend, built?.library)
    // What an engine learns depends on all of these.
    const { speculative, proposerOptions } = settings.options
    const chosen = [settings.backend, settings.draft, settings.policy, settings.policyOptions]
    const kind = [fingerprint, availableCores(), engines, ...chosen, speculative, proposerOptions]
    const learned = await openLearned(learnedFolder(process), kind, logger)
    const draftBackend = await openDraft(registry, settings, backend.limits, context)
    // The states of unloaded models take one more share.
    const sharers = engines + Number(cache.unloaded !== undefined)
    const cacheRamBytes = cacheSize(cache.ram, availableMemory(settings.heldBytes), sharers)
    const { logger: _, ...parts } = use
    const engine = createEngine({
      backend,
      learned,
      ...defined({ draftBackend }),
      policy,
      fallbackPolicy,
      logger,
      options: { ...settings.options, cacheRamBytes },
      registry,
      use: parts,
      ...(await stateFilesOf(cache, cacheRamBytes, backend, logger)),
      counts: false,
    })
    await loadAdapters(engine, settings, logger)
    hostEngine(engine, registry, channel, { fingerprint })
    // Node keeps compiled code when a process exits, which this one does not: it is killed.
    const { flushCompileCache } = module as { flushCompileCache?: () => void }
    flushCompileCache?.()
    void engine.failed().then((error) => {
      logger.error({ err: error }, 'the engine failed: its process ends and is replaced')
      process.disconnect()
    })
  } catch (error) {
    channel.send({ type: 'failed', error: CllmError.from(error).serialize() })
    process.disconnect()
  }
}

/**
 * Loads the draft model, if the settings have one, with slots as long as the served model's.
 *
 * @throws what its backend throws
 */
async function openDraft(
  registry: PluginRegistry,
  { backendName, draft }: EngineSettings,
  { contextSize, kvTokens }: BackendLimits,
  context: BackendContext,
): Promise<Backend | undefined> {
  if (draft === undefined) return undefined
  const longest = kvTokens === undefined ? contextSize : Math.min(contextSize, longestInPool)
  const options = { ...draft, contextSize: longest }
  const draftBackend = await registry.createBackend(backendName, options, context)
  await warmUp(draftBackend)
  return draftBackend
}

/**
 * Loads the adapters of the settings.
 *
 * @throws what loading one throws, unless the settings skip those
 */
async function loadAdapters(engine: Engine, settings: EngineSettings, logger: Logger) {
  const { adapters = [], skipsAdapters = false } = settings
  for (const source of adapters) {
    try {
      await engine.features.get(ADAPTERS).load(source)
    } catch (error) {
      if (!skipsAdapters) throw error
      const { name, path } = source
      logger.error({ name, path, err: error }, 'an adapter cannot be loaded again: it is left out')
    }
  }
}

/** Runs one small step, so that the first request does not pay for first touches of memory. */
async function warmUp(backend: Backend): Promise<void> {
  if (backend.capabilities.generates === false) return
  const [token = 0] = backend.tokenizer.encode('Hello')
  const sampler = backend.createSampler({ ...defaultSampling, seed: 1 }, [token])
  await backend.step([{ slot: 0, position: 0, tokens: [token], outputs: [0], sampler }])
  sampler.dispose()
  backend.release(0)
}

/** The most bytes of encoded images and sounds in the folder in memory. */
const mostEncodedBytes = 2 ** 28

/**
 * The memory of an engine's cache, and its files if any are configured.
 *
 * @param ramBytes - of the cache; also the limit of the states of unloaded models, and a quarter of it that of encodings
 */
async function stateFilesOf(
  { disk, unloaded, encodings, slotFolder, key, cluster }: CacheSettings,
  ramBytes: number,
  { media }: Backend,
  logger: Logger,
): Promise<Pick<EngineParts, 'stateFiles' | 'slotFiles' | 'stateMemory'>> {
  const shared = cluster && media && (await import('@cllm/cluster')).SharedEncodings
  const open = (options: StateFolderOptions) => {
    const all = [{ ...options, ...defined({ key }) }, systemClock, logger] as const
    return shared && cluster ? new shared(...all, cluster) : new StateFolder(...all)
  }
  const waiting = { limitBytes: ramBytes, isUrgent: true, whenClosing: true }
  const folder = disk ?? (unloaded === undefined ? undefined : { folder: unloaded, ...waiting })
  if (encodings !== undefined) {
    // The folder is not made again when the server has removed it.
    const limitBytes = Math.min(mostEncodedBytes, Math.floor(ramBytes / 4))
    media?.keepIn?.(open({ folder: encodings, limitBytes, whenClosing: true }))
  }
  return {
    stateMemory: new TouchedMemory(),
    ...defined({
      stateFiles: folder && open(folder),
      slotFiles: slotFolder === undefined ? undefined : new SlotFolder(slotFolder, key),
    }),
  }
}
