import { stat } from 'node:fs/promises'
import { AdapterSet, type LoadedModel, type LoadableModel } from '@cllm/host'
import { CllmError, defined, type Logger, type PluginRegistry, type RouterPolicy } from '@cllm/core'
import { parseKeepAlive } from '@cllm/http-koa'
import type { CommandIo } from '../../commands/command.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { adaptersOf } from '../../config/paths.js'
import type { OwnSettings, ServedModel } from '../../config/served-models.js'
import { type EngineSettings, llamaCpp } from '../../engine/process-channel.js'
import type { CrashFiles } from '../../engine/engine-files.js'
import {
  asLoaded,
  type EngineProcess,
  spawnEngine,
  joinEngines,
} from '../../engine/spawn-engine.js'
import {
  backendNameOf,
  type ModelToServe,
  toEngineSettings,
  toSupervisorOptions,
} from '../../engine/to-engine-settings.js'
import { hasMediaLibrary } from '../../engine/native-library.js'
import { type MemoryFolder, openMemoryFolder } from '../../engine/memory-folder.js'
import { modelsFolder } from '../cache-folder.js'
import { pullModel } from '../fetch/progress-bar.js'
import {
  mayHaveProjector,
  modelName,
  type ModelSources,
  type ResolveModelOptions,
} from '../resolve-model.js'

/** The inputs for loading models besides the configuration. */
export interface LoadingParts {
  readonly registry: PluginRegistry
  readonly logger: Logger
  readonly crashes: CrashFiles
  /** Whether a protocol has API keys of its own; known before the first model is loaded. Default: no. */
  hasKeys?: boolean
}

/** Makes a configuration's models loadable, each into its own engine process. */
export class LoadableModels {
  /** The spec of every model, by its name. */
  readonly specs = new Map<string, string>()
  /** The adapters of every model, by its name. */
  readonly adapterSets = new Map<string, AdapterSet>()
  /** The folder in memory that the engines share, from the first one that needs it on. */
  memory: MemoryFolder | undefined
  readonly #engines = new Set<EngineProcess>()
  /** Models that were loaded before: they are loaded again even if an adapter's file is gone. */
  readonly #wereLoaded = new Set<string>()
  readonly #sources: ModelSources
  #logLevel: string | undefined

  constructor(
    private readonly loaded: LoadedConfig,
    private readonly io: CommandIo,
    private readonly parts: LoadingParts,
  ) {
    this.#sources = parts.registry.modelSources()
    // A wrong router is reported before a model is fetched.
    if (loaded.config.cluster.workers > 1) this.#createRouter()
  }

  /** How to find a model with these settings. */
  findOptions(settings: OwnSettings): Pick<ResolveModelOptions, 'sources' | 'mustBeGguf'> {
    const mustBeGguf = backendNameOf(this.loaded.config, settings) === llamaCpp
    return { sources: this.#sources, mustBeGguf }
  }

  /** Changes the log level of all engines, also of engines that are loaded later. */
  setLogLevel(level: string): void {
    this.#logLevel = level
    for (const engine of this.#engines) engine.setLogLevel(level)
  }

  /**
   * The models that are served by name, which are fetched and loaded on first use.
   *
   * @throws `model_unavailable` for a name that the catalog does not have
   */
  byName(): LoadableModel[] {
    const models = this.loaded.config.models.served
    for (const { spec, ...own } of Object.values(models)) modelName(spec, this.findOptions(own))
    return Object.entries(models).map(([name, model]) => this.of(name, model))
  }

  /**
   * The single served model, named after its file if no name is set.
   *
   * @throws `model_unavailable` for a name that the catalog does not have
   */
  single(): LoadableModel {
    const { spec, id, chat_template: template } = this.loaded.config.model
    const name = modelName(spec, this.findOptions({}))
    return this.of(id ?? name, { spec, chat_template: template })
  }

  /** Makes a model loadable under this name. */
  of(name: string, { spec, ...settings }: ServedModel): LoadableModel {
    this.specs.set(name, spec)
    const { lora = this.loaded.config.engine.lora, keep_alive: keepAlive } = settings
    this.adapterSets.set(name, new AdapterSet(adaptersOf(lora as readonly string[])))
    const keepAliveMs = keepAlive === undefined ? undefined : parseKeepAlive(keepAlive)
    return {
      name,
      ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
      load: async ({ heldBytes, signal }) => {
        const textOnly = !(await this.#looksFor(spec, settings))
        const found = await this.#fetch(spec, settings, signal, textOnly)
        const draft = await this.#fetchDraft(settings, signal)
        return await this.#spawn({ ...found, name, settings, ...draft }, heldBytes, signal)
      },
    }
  }

  /** Whether a projector that is found would be used. */
  async #looksFor(spec: string, settings: OwnSettings): Promise<boolean> {
    const { engine } = this.loaded.config
    const { mmproj = engine.mmproj } = settings
    if (mmproj !== 'auto' || !this.findOptions(settings).mustBeGguf) return false
    if (engine.media_library !== null) return true
    if (!mayHaveProjector(spec)) return false
    if (await hasMediaLibrary(this.io.env)) return true
    const why = 'nothing encodes images here: `cllm native build` builds the library'
    this.parts.logger.info({ model: spec }, `served without a projector, if there is one: ${why}`)
    return false
  }

  async #fetch(spec: string, settings: OwnSettings, closing: AbortSignal, textOnly = false) {
    const { io, loaded } = this
    return await pullModel(spec, io.stderr, {
      env: io.env,
      signal: closing,
      textOnly,
      ...this.findOptions(settings),
      cacheFolder: modelsFolder(loaded, io.env),
    })
  }

  /** The file of the draft model, if `scheduler.speculative` names one. */
  async #fetchDraft(settings: OwnSettings, closing: AbortSignal) {
    const { speculative } = this.loaded.config.scheduler
    const find = this.findOptions(settings)
    if (!isDraftModel(speculative, this.parts.registry, find)) return {}
    const { path } = await this.#fetch(speculative, settings, closing, true)
    return { draftPath: path }
  }

  /** Engines that share the cores: the loaded ones and this model's, or `max_loaded` if it is set. */
  #enginesAtOnce(): number {
    const { models, cluster } = this.loaded.config
    const { max_loaded: most } = models
    if (most === 'auto') return this.#engines.size + cluster.workers
    return Math.min(most, this.specs.size) * cluster.workers
  }

  async #spawn(model: ModelToServe, heldBytes: number, closing: AbortSignal): Promise<LoadedModel> {
    const { workers } = this.loaded.config.cluster
    const engines = this.#enginesAtOnce()
    const first = await this.#spawnOne(model, { heldBytes, engines }, closing)
    if (workers === 1) return asLoaded(first)
    const bytes = await this.#bytesOf(first, model)
    const others = await Promise.allSettled(
      Array.from({ length: workers - 1 }, async (_, index) => {
        const held = heldBytes + (index + 1) * bytes.each
        return await this.#spawnOne(model, { heldBytes: held, engines }, closing)
      }),
    )
    const started = [first, ...others.flatMap((one) => ('value' in one ? [one.value] : []))]
    const failed = others.find((one) => one.status === 'rejected')
    if (failed !== undefined) {
      await Promise.all(started.map(async (engine) => await asLoaded(engine).close()))
      throw failed.reason
    }
    const memoryBytes = bytes.first + (workers - 1) * bytes.each
    return await joinEngines(started, this.#createRouter(), this.parts.logger, memoryBytes)
  }

  /** Bytes that the first engine of a model takes, and each further one: mapped weights are shared. */
  async #bytesOf(first: EngineProcess, { path }: ModelToServe) {
    const own = asLoaded(first).memoryBytes ?? 0
    const { mmap } = first.info.model.details ?? {}
    const shared = mmap === true ? (await stat(path)).size : 0
    return { first: own, each: Math.max(0, own - shared) }
  }

  async #spawnOne(
    model: ModelToServe,
    shares: Pick<EngineSettings, 'heldBytes' | 'engines'>,
    closing: AbortSignal,
  ): Promise<EngineProcess> {
    const { io, loaded } = this
    const { logger, crashes, hasKeys } = this.parts
    const { recorder: recorderConfig, models, cache } = loaded.config
    const settings = toEngineSettings(loaded, model, hasKeys)
    const areSeveral = Object.keys(models.served).length > 1
    const encodes = settings.backend['mmprojPath'] !== undefined
    if ((areSeveral || encodes) && cache.ram !== 0 && cache.disk === null)
      this.memory ??= openMemoryFolder()
    const { folder } = this.memory ?? {}
    const shared = areSeveral ? { unloaded: folder } : { encodings: folder }
    const engine = await spawnEngine(
      {
        ...settings,
        ...shares,
        skipsAdapters: this.#wereLoaded.has(model.name),
        ...(folder && { cache: { ram: 0, ...settings.cache, ...defined(shared) } }),
      },
      {
        env: io.env,
        signal: closing,
        logger,
        adapters: () => this.adapterSets.get(model.name)?.sources ?? [],
        supervisor: toSupervisorOptions(loaded.config),
        recorder: {
          windowMs: recorderConfig.minutes * 60_000,
          maxBytes: recorderConfig.size,
          onCrash: crashes.keep,
        },
      },
    )
    if (this.#logLevel !== undefined) engine.setLogLevel(this.#logLevel)
    this.#engines.add(engine)
    this.#wereLoaded.add(model.name)
    void engine.ended.then(() => this.#engines.delete(engine))
    return engine
  }

  #createRouter(): RouterPolicy {
    const { router, router_options: options } = this.loaded.config.cluster
    return this.parts.registry.routers.create(router, options)
  }
}

/**
 * Whether `scheduler.speculative` names a model and no proposer.
 *
 * @param find - how models are found
 * @throws `invalid_configuration` with the names of the proposers when it is neither
 */
export function isDraftModel(
  speculative: string,
  { proposers }: PluginRegistry,
  find: Pick<ResolveModelOptions, 'sources' | 'mustBeGguf'> = {},
): boolean {
  if (proposers.names.includes(speculative)) return false
  try {
    modelName(speculative, find)
    return true
  } catch (error) {
    if (!CllmError.isInstance(error)) throw error
    proposers.check(speculative)
    throw error
  }
}
