import { systemClock } from '../clock/system-clock.js'
import type { Clock } from '../contracts/clock.js'
import type { EngineClient } from '../contracts/engine-client.js'
import type { ModelStatus, OpenOptions } from '../contracts/engine-directory.js'
import { silentLogger, type Logger } from '../contracts/logger.js'
import { CllmError } from '../errors/cllm-error.js'
import { defaultModelPoolOptions, ModelKeeper, type ModelPoolOptions } from './model-keeper.js'
import { nameAmong } from './name-among.js'
import { PooledEngineClient } from './pooled-engine-client.js'
import { PooledModel, type ModelSource } from './pooled-model.js'
import type { ClosableDirectory } from './closable-directory.js'

/** What a {@link ModelPool} is made of. */
export interface ModelPoolParts {
  /** The first one is the default. */
  readonly models: readonly ModelSource[]
  /** Further names of models; `*` stands for all that is not known. */
  readonly aliases?: Readonly<Record<string, string>>
  /** Default: {@link defaultModelPoolOptions}. */
  readonly options?: Partial<ModelPoolOptions>
  /** Told when an engine is gone and could not be started again; its next use loads it. */
  readonly onLost?: (model: string, reason: string) => void
  /** Default: real time. */
  readonly clock?: Clock
  /** Default: silent. */
  readonly logger?: Logger
}

/**
 * Models that come into memory when they are first used and leave it when room is needed or nobody
 * has used them for their time to live (as Ollama's do). Uses that come at once load a model once; a
 * model in use is never unloaded; one that cannot be loaded fails those that wait for it, and is
 * tried again at its next use.
 */
export class ModelPool implements ClosableDirectory {
  readonly #models = new Map<string, PooledModel>()
  readonly #aliases: ReadonlyMap<string, string>
  readonly #keeper: ModelKeeper
  readonly #clock: Clock

  constructor({ models, aliases = {}, options, onLost, ...parts }: ModelPoolParts) {
    const { clock = systemClock, logger = silentLogger } = parts
    const all = { ...defaultModelPoolOptions, ...options }
    this.#clock = clock
    this.#aliases = new Map(Object.entries(aliases))
    this.#keeper = new ModelKeeper(this.#models, all, clock, logger, onLost)
    for (const source of models) this.add(source)
  }

  list(): readonly string[] {
    return [...this.#models.keys()]
  }

  nameOf(id?: string): string {
    return nameAmong(this.list(), this.#aliases, id)
  }

  open(id?: string, options: OpenOptions = {}): EngineClient {
    const model = this.#find(id)
    if (options.peek === true) return peek(model)
    return new PooledEngineClient(this.#keeper, model, options, this.#clock)
  }

  status(id?: string): ModelStatus {
    return this.#find(id).status
  }

  async unload(id: string): Promise<void> {
    await this.#keeper.unload(this.#find(id))
  }

  /** Brings a model into memory. Throws what its load throws. */
  async load(id?: string): Promise<void> {
    ;(await this.#keeper.hold(this.#find(id))).release()
  }

  /** Serves one more model; one of its name stays as it is. */
  add(source: ModelSource): void {
    if (!this.#models.has(source.name)) this.#models.set(source.name, new PooledModel(source))
  }

  /** Unloads a model and forgets it. Throws `model_not_found`. */
  async remove(id: string): Promise<void> {
    const model = this.#find(id)
    await this.#keeper.unload(model)
    this.#models.delete(model.name)
  }

  async drain(): Promise<void> {
    await this.#keeper.drain()
  }

  async close(): Promise<void> {
    await this.#keeper.close()
  }

  #find(id?: string): PooledModel {
    return this.#models.get(this.nameOf(id))!
  }
}

function peek({ name, loaded, state }: PooledModel): EngineClient {
  if (loaded !== undefined && state === 'loaded') return loaded.client
  throw new CllmError('engine_unavailable', `The model ${name} is not in memory: it is ${state}`)
}
