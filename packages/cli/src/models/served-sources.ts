import type { LoadedModel, Logger, ModelSource } from '@cllm/core'
import { parseKeepAlive } from '@cllm/http-koa'
import type { CommandIo } from '../commands/command-io.js'
import type { LoadedConfig } from '../config/load-config.js'
import type { ServedModel } from '../config/served-models.js'
import type { CrashFiles } from '../engine/crash-files.js'
import { spawnEngine, type EngineProcess } from '../engine/spawn-engine.js'
import { type ModelToServe, toEngineSettings } from '../engine/to-engine-settings.js'
import { pullModel } from './pull-model.js'
import { checkSpec } from './resolve-model.js'

/** Makes the models of a configuration ready to be loaded, each into an engine process of its own. */
export class ServedSources {
  /** What every model was asked for as, by its name. */
  readonly specs = new Map<string, string>()
  readonly #engines = new Set<EngineProcess>()
  #logLevel: string | undefined

  constructor(
    private readonly loaded: LoadedConfig,
    private readonly io: CommandIo,
    private readonly logger: Logger,
    private readonly crashes: CrashFiles,
  ) {}

  /** Changes what the engines log, also those that are loaded later. */
  setLogLevel(level: string): void {
    this.#logLevel = level
    for (const engine of this.#engines) engine.setLogLevel(level)
  }

  /**
   * The models that are served by name; they are fetched and loaded when they are first used.
   *
   * @throws `model_unavailable` for a name that the catalog does not have
   */
  byName(): ModelSource[] {
    const models = this.loaded.config.models.served
    for (const { spec } of Object.values(models)) checkSpec(spec)
    return Object.entries(models).map(([name, model]) => this.of(name, model))
  }

  /** The one model that is served, which is fetched now: it may go by what its file is called. */
  async single(): Promise<ModelSource> {
    const { spec, id, chat_template: template } = this.loaded.config.model
    const { name } = await this.#fetch(spec)
    return this.of(id ?? name, { spec, ...(template === null ? {} : { chat_template: template }) })
  }

  /** A model of this name. */
  of(name: string, { spec, ...settings }: ServedModel): ModelSource {
    this.specs.set(name, spec)
    const { keep_alive: keepAlive } = settings
    const keepAliveMs = keepAlive === undefined ? undefined : parseKeepAlive(keepAlive)
    return {
      name,
      ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
      load: async ({ heldBytes, signal }) => {
        const { path } = await this.#fetch(spec, signal)
        return await this.#spawn({ name, path, settings }, heldBytes, signal)
      },
    }
  }

  async #fetch(spec: string, closing?: AbortSignal) {
    const { io, loaded } = this
    const { cache } = loaded.config.models
    const signal = closing === undefined ? io.signal : AbortSignal.any([io.signal, closing])
    const folder = cache === null ? {} : { cacheFolder: cache }
    return await pullModel(spec, io.stderr, { env: io.env, signal, ...folder })
  }

  async #spawn(model: ModelToServe, heldBytes: number, closing: AbortSignal): Promise<LoadedModel> {
    const { io, loaded, logger } = this
    const { engine: engineConfig, recorder: recorderConfig } = loaded.config
    const engine = await spawnEngine(
      { ...toEngineSettings(loaded, model), heldBytes },
      {
        env: io.env,
        signal: AbortSignal.any([io.signal, closing]),
        logger,
        supervisor: { hangTimeoutMs: engineConfig.hang_timeout * 1000 },
        recorder: {
          windowMs: recorderConfig.minutes * 60_000,
          maxBytes: recorderConfig.size,
          onCrash: this.crashes.keep,
        },
      },
    )
    if (this.#logLevel !== undefined) engine.setLogLevel(this.#logLevel)
    this.#engines.add(engine)
    void engine.ended.then(() => this.#engines.delete(engine))
    return asLoaded(engine)
  }
}

function asLoaded({ client, info, ended, kill }: EngineProcess): LoadedModel {
  const { memoryBytes } = info.model.details ?? {}
  return {
    client,
    // What is on a GPU is not in the RAM.
    memoryBytes: info.capabilities.gpu === false ? Number(memoryBytes ?? 0) : 0,
    gone: ended,
    async close() {
      await client.close()
      kill()
      await ended
    },
  }
}
