import type {
  Clock,
  Services,
  EngineClient,
  ModelLoading,
  ModelScheduler,
  ModelStatus,
  OpenOptions,
  Random,
} from '@cllm/core'
import {
  CheckedModelScheduler,
  CllmError,
  lru,
  silentLogger,
  systemClock,
  systemRandom,
} from '@cllm/core'
import { ModelLoader } from './model-loader.js'
import { PooledEngineClient } from './pooled-engine-client.js'
import type { HoldOptions, LoadableModel, ModelPoolOptions } from './pooled-model.js'
import { defaultModelPoolOptions, PooledModel } from './pooled-model.js'
import { aliasesOf, type ClosableDirectory, resolveModelName } from '../server/static-directory.js'

/** Parts of a {@link ModelPool}; the services are by default real time, random ids, and a logger that is silent. */
export interface ModelPoolParts extends Partial<Services> {
  /** The first one is the default. */
  readonly models: readonly LoadableModel[]
  /** Further names of models, null for the default one; `*` matches every unknown name. */
  readonly aliases?: Readonly<Record<string, string | null>>
  /** Decides which models are in memory. Default: {@link lru}. */
  readonly scheduler?: { readonly name: string; readonly policy: ModelScheduler }
  /** Tags in the status of each model; default: none. */
  readonly tags?: readonly string[]
  /** Default: {@link defaultModelPoolOptions}. */
  readonly options?: Partial<ModelPoolOptions>
  /** Called when an engine has stopped for good; its next use loads the model again. */
  readonly onLost?: (model: string, reason: string) => void
}

/**
 * Models that are loaded at first use and unloaded to make room or after their time to live (as in
 * Ollama). Concurrent uses load a model once; a model in use is never unloaded; a failed load fails
 * the requests that wait for it, and the next use tries again.
 */
export class ModelPool implements ClosableDirectory {
  readonly #models = new Map<string, PooledModel>()
  readonly #aliases: ReadonlyMap<string, string | null>
  readonly #tags: readonly string[]
  readonly #loader: ModelLoader
  readonly #clock: Clock
  readonly #random: Random
  readonly loading: ModelLoading

  constructor({ models, aliases = {}, tags = [], options, onLost, ...parts }: ModelPoolParts) {
    const { clock = systemClock, logger = silentLogger } = parts
    const { scheduler = { name: lru.name, policy: lru.create({}) } } = parts
    const all = { ...defaultModelPoolOptions, ...options }
    this.#clock = clock
    this.#random = parts.random ?? systemRandom
    this.loading = { autoload: all.autoload, maxLoaded: all.maxLoaded, scheduler: scheduler.name }
    this.#aliases = new Map(Object.entries(aliases))
    this.#tags = tags
    const checked = new CheckedModelScheduler(scheduler.name, scheduler.policy, logger)
    this.#loader = new ModelLoader(all, clock, logger, checked, onLost)
    for (const source of models) this.add(source)
  }

  list(): readonly string[] {
    return [...this.#models.keys()]
  }

  nameOf(id?: string): string {
    const [first = ''] = this.#models.keys()
    const name = id ?? first
    return this.#models.has(name) ? name : resolveModelName(this.list(), this.#aliases, name)
  }

  open(id?: string, options: OpenOptions = {}): EngineClient {
    const model = this.#find(id)
    if (options.peek === true) return peek(model)
    if (!this.loading.autoload && options.load !== true) ensurePresent(model)
    return new PooledEngineClient(this.#loader, model, options, this.#clock, this.#random)
  }

  status(id?: string): ModelStatus {
    const { status } = this.#find(id)
    const aliases = aliasesOf(status.name, this.list(), this.#aliases)
    return { ...status, aliases, tags: this.#tags }
  }

  async unload(id: string): Promise<void> {
    await this.#loader.unload(this.#find(id))
  }

  /** Brings a model into memory. Throws what its load throws. */
  async load(id?: string, options?: Pick<HoldOptions, 'isTold'>): Promise<void> {
    const { release } = await this.#loader.hold(this.#find(id), options)
    release?.()
  }

  /** Serves one more model, unless there is one of that name. */
  add(source: LoadableModel): void {
    if (this.#models.has(source.name)) return
    this.#models.set(source.name, new PooledModel(source, this.#clock))
  }

  /**
   * Forgets a model at once and unloads it as soon as it is unused; resolves when its memory is free.
   * Requests that wait for it get `model_not_found`, and a load that is under way is ended.
   *
   * @throws `model_not_found`
   */
  async remove(id: string): Promise<void> {
    const model = this.#find(id)
    this.#models.delete(model.name)
    await this.#loader.remove(model)
  }

  async drain(): Promise<void> {
    await this.#loader.drain()
  }

  async close(): Promise<void> {
    await this.#loader.close()
  }

  #find(id?: string): PooledModel {
    return this.#models.get(this.nameOf(id))!
  }
}

function ensurePresent({ name, state }: PooledModel): void {
  if (state === 'loaded' || state === 'loading') return
  const message = `model: ${name} is not in memory, and requests do not load models here`
  throw new CllmError('invalid_request', message, { details: { field: 'model' } })
}

function peek({ name, loaded, state }: PooledModel): EngineClient {
  if (loaded !== undefined && state === 'loaded') return loaded.client
  throw new CllmError('engine_unavailable', `The model ${name} is not in memory: it is ${state}`)
}
