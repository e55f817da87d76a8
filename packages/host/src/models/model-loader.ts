import { type Clock, type Logger, type ModelScheduler, CllmError, takesNone } from '@cllm/core'
import type {
  HoldOptions,
  Lease,
  LoadedModel,
  ModelPoolOptions,
  PooledModel,
  Waiter,
} from './pooled-model.js'
import { explainMemory, mayFit, reasonOf, removed } from './pooled-model.js'

/**
 * Loads and unloads models as a scheduler decides. One load runs at a time, so that each sees the memory that the one
 * before left. A model in use is unloaded when its last use ends. New requests for a model that is to be unloaded wait
 * until it is unloaded, as it would never be unused otherwise, or until the scheduler keeps it.
 */
export class ModelLoader {
  /** Models that requests wait for, the longest waiting first. */
  readonly #wanted = new Set<PooledModel>()
  /** The model that is unloaded as soon as it is unused, to make room. */
  #draining: PooledModel | undefined
  /** Cancels the timer that asks the scheduler again. */
  #stopAsking: (() => void) | undefined
  /** Models that are loading, loaded or unloading, also those that the pool has removed. */
  readonly #present = new Set<PooledModel>()
  /** Models whose last load failed as the memory did not suffice beside the loaded models. */
  readonly #short = new Set<PooledModel>()
  /** Called at the next change of a model or of the requests that wait for it. */
  readonly #onAdvance: (() => void)[] = []
  #isOpen = true
  #isClosing = false
  readonly #onLeft = (model: PooledModel, loaded: LoadedModel): void => {
    if (model.users === 0 && this.#present.size > 1) void model.measure(loaded)
    this.#settle(model)
  }

  constructor(
    readonly options: ModelPoolOptions,
    private readonly clock: Clock,
    private readonly logger: Logger,
    private readonly scheduler: ModelScheduler,
    private readonly onLost: (model: string, reason: string) => void = () => {},
  ) {}

  /** Leases a model if it is loaded and is not about to be unloaded. */
  holdNow(model: PooledModel, keepAliveMs?: number): Lease | undefined {
    return this.#stays(model) ? model.enter(keepAliveMs, this.#onLeft) : undefined
  }

  /** Loads and leases a model. Throws what its load throws, and `model_not_found` for a removed one. */
  async hold(
    model: PooledModel,
    { signal, urgency, ...options }: HoldOptions = {},
  ): Promise<Lease> {
    if (signal?.aborted === true) throw reasonOf(signal)
    if (!this.#isOpen) throw takesNone()
    if (model.isRemoved) throw removed(model)
    const present = this.holdNow(model, options.keepAliveMs)
    if (present !== undefined) return present
    const { maxWaiting } = this.options
    if (model.waiters.size >= maxWaiting) {
      const message = `${maxWaiting} requests wait for the model ${model.name}, which is the limit`
      throw new CllmError('queue_full', message)
    }
    let leave = (): void => {}
    const leased = new Promise<Lease>((resolve, reject) => {
      const since = this.clock.now()
      const { priority = 0, deadlineMs = Infinity } = urgency ?? {}
      const deadline = deadlineMs === Infinity ? undefined : since + deadlineMs
      const waiter: Waiter = { ...options, since, priority, deadline, resolve, reject }
      model.waiters.add(waiter)
      leave = () => {
        if (!model.waiters.delete(waiter)) return
        reject(reasonOf(signal))
        this.#advance()
      }
      signal?.addEventListener('abort', leave, { once: true })
      this.#wanted.add(model)
      this.#advance()
    })
    // A batch waits for its model again and again with one signal.
    return await leased.finally(() => signal?.removeEventListener('abort', leave))
  }

  /**
   * Unloads the model as soon as its present users are done; resolves when its memory is free. Ends a load that no
   * request waits for. Later requests load the model again.
   */
  async unload(model: PooledModel): Promise<void> {
    if (model.state === 'unloaded') return
    await new Promise<void>((resolve) => {
      model.onUnloaded.push(resolve)
      model.isUnwanted = true
      if (model.waiters.size === 0) model.loading?.abort()
      this.#settle(model)
    })
  }

  /** Unloads the model for good: requests that wait for it get `model_not_found`, and its load is ended. */
  async remove(model: PooledModel): Promise<void> {
    model.isRemoved = true
    model.refuse(removed(model))
    await this.unload(model)
  }

  /** Refuses new requests; resolves when the running ones, and those that wait for a model to be loaded, are done. */
  async drain(): Promise<void> {
    this.#isOpen = false
    const models = new Set([...this.#present, ...this.#wanted])
    await Promise.all([...models].map(async (model) => await this.#drained(model)))
  }

  /** Ends all models at once. */
  async close(): Promise<void> {
    this.#isOpen = false
    this.#isClosing = true
    for (const model of this.#wanted) model.refuse(takesNone())
    const gone = [...this.#present].map(async (model) => {
      model.loading?.abort()
      if (model.state === 'loaded') void this.#evict(model)
      await new Promise<void>((resolve) => void model.onUnloaded.push(resolve))
    })
    await Promise.all(gone)
  }

  async #drained(model: PooledModel): Promise<void> {
    // A draining engine takes no requests, so those that wait for it come first.
    if (model.waiters.size > 0) {
      while (model.waiters.size + model.users > 0) {
        await new Promise<void>((resolve) => void this.#onAdvance.push(resolve))
      }
    }
    await model.loaded?.client.drain()
  }

  /** Unloads an unused model, now or at its expiry; waiting loads may then proceed. */
  #settle(model: PooledModel): void {
    if (model.state === 'loaded' && model.users === 0) {
      if (model.isUnwanted || model.keepAliveMs <= 0) void this.#evict(model)
      else if (model.keepAliveMs < Infinity && model.expiresAt === undefined) {
        const at = model.lastUsed + model.keepAliveMs
        model.leaveAt(at, () => void this.#evict(model))
      }
    }
    if (this.#wanted.size > 0 || this.#onAdvance.length > 0) this.#advance()
  }

  /** Does what the scheduler decides, and serves the requests whose model stays. */
  #advance(): void {
    for (const call of this.#onAdvance.splice(0)) call()
    for (const model of this.#wanted) if (model.waiters.size === 0) this.#wanted.delete(model)
    this.#stopAsking?.()
    const draining = this.#draining
    this.#draining = this.#stopAsking = undefined
    if (this.#wanted.size > 0) this.#decide(draining)
    for (const model of this.#wanted) if (this.#stays(model)) this.#admit(model)
  }

  #stays(model: PooledModel): boolean {
    return model.state === 'loaded' && model !== this.#draining && !model.isUnwanted
  }

  /** Asks the scheduler, if there is something to decide, and starts what it decided. */
  #decide(draining: PooledModel | undefined): void {
    if (![...this.#wanted].some(({ state }) => state === 'unloaded')) return
    const all = new Set([...this.#wanted, ...this.#present])
    if ([...all].some(({ state }) => state === 'loading' || state === 'unloading')) return
    // A removed model is unloaded anyway, and another one may have its name by now.
    const served = [...all].filter(({ isRemoved }) => !isRemoved)
    const models = new Map(served.map((model) => [model.name, model]))
    const now = this.clock.now()
    const hasRoom = this.#present.size < this.options.maxLoaded
    const views = served.map((model) => {
      const fits = this.#present.size === 0 || (hasRoom && !this.#short.has(model))
      return model.view(fits, model === draining || model.isUnwanted)
    })
    const decision = this.scheduler.decide(views, now)
    if ('load' in decision) void this.#load(models.get(decision.load)!)
    else if ('unload' in decision) {
      const model = models.get(decision.unload)!
      model.swaps++
      void this.#evict(model)
    } else if ('drain' in decision) this.#draining = models.get(decision.drain)
    else if (decision.holdMs < Infinity) {
      this.#stopAsking = this.clock.at(now + decision.holdMs, () => this.#advance())
    }
  }

  /**
   * Serves the requests that wait for the model.
   * @param loadedSince - when the load that they waited for began; default: the model was loaded before
   */
  #admit(model: PooledModel, loadedSince?: number): void {
    const now = this.clock.now()
    for (const { since, keepAliveMs, resolve } of model.waiters) {
      const turn = Math.max(0, (loadedSince ?? now) - since)
      const waited = { turn, load: now - since - turn }
      resolve({ ...model.enter(keepAliveMs, this.#onLeft), waited })
    }
    model.waiters.clear()
  }

  async #load(model: PooledModel): Promise<void> {
    const { source, name } = model
    const since = this.clock.now()
    model.loading = new AbortController()
    const { signal } = model.loading
    this.#present.add(model)
    model.state = 'loading'
    this.#short.delete(model)
    model.keepAliveMs = source.keepAliveMs ?? this.options.keepAliveMs
    let starting: LoadedModel | undefined
    let loaded: LoadedModel
    try {
      starting = await source.load({ heldBytes: this.#heldBytes(), signal })
      loaded = await model.meet(starting)
    } catch (error) {
      await starting?.close().catch(() => {})
      this.#failed(model, CllmError.from(error))
      return
    }
    model.state = 'loaded'
    model.error = undefined
    model.lastUsed = this.clock.now()
    const ms = model.lastUsed - since
    model.loads++
    model.loadMs = model.loadMs === undefined ? ms : (model.loadMs + ms) / 2
    this.logger.info({ model: name, ms }, 'the model is loaded')
    void loaded.gone?.then((reason) => this.#lost(model, loaded, reason))
    // Requests that came after the load was aborted wait for the next load.
    if (signal.aborted) return await this.#evict(model)
    model.loading = undefined
    this.#admit(model, since)
    this.#settle(model)
  }

  #failed(model: PooledModel, error: CllmError): void {
    const isEnded = model.loading?.signal.aborted === true
    this.#forget(model)
    const others = [...this.#present]
    const isShort = error.code === 'insufficient_memory' && others.length > 0
    if (model.isRemoved) this.logger.info({ model: model.name }, 'the removed model is not loaded')
    else if (this.#isClosing) {
      this.logger.info({ model: model.name }, 'the model is not loaded: the server ends')
      model.refuse(takesNone())
    } else if (isEnded) this.logger.info({ model: model.name }, 'the load was ended')
    else if (isShort && mayFit(error, this.#heldBytes())) this.#short.add(model)
    else {
      model.error = isShort ? explainMemory(error, others) : error
      const { code, message } = model.error
      const isBug = code === 'internal' || code === 'backend_failed'
      const fields = { model: model.name, ...(isBug ? { err: model.error } : { code }) }
      const level = [...model.waiters].some(({ isTold }) => isTold) ? 'debug' : 'error'
      this.logger[level](fields, `the model cannot be loaded: ${message}`)
      model.refuse(model.error)
    }
    this.#advance()
  }

  #lost(model: PooledModel, loaded: LoadedModel, reason: string): void {
    if (model.loaded !== loaded || model.state !== 'loaded') return
    const { name } = model
    const message = `The engine of ${name} is gone and could not be started again: ${reason}`
    model.error = new CllmError('engine_unavailable', message)
    this.logger.error({ model: name, reason }, 'the engine is gone and could not be started again')
    model.stay?.()
    if (this.#isOpen) void model.keepFinalStatistics(loaded)
    this.#forget(model)
    this.onLost(name, reason)
    this.#advance()
  }

  async #evict(model: PooledModel): Promise<void> {
    const { loaded, name } = model
    if (loaded === undefined || model.state !== 'loaded') return
    model.stay?.()
    model.state = 'unloading'
    if (this.#isOpen) await model.keepFinalStatistics(loaded)
    try {
      await loaded.close()
    } catch (error) {
      this.logger.error({ model: name, err: error }, 'the model did not close as it should')
    }
    this.logger.info({ model: name }, 'the model is unloaded')
    this.#forget(model)
    this.#advance()
  }

  #forget(model: PooledModel): void {
    this.#present.delete(model)
    this.#short.clear()
    model.forget()
  }

  #heldBytes(): number {
    return [...this.#present].reduce((sum, { loaded }) => sum + (loaded?.memoryBytes ?? 0), 0)
  }
}
