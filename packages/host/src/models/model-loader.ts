import { type Clock, type Logger, CllmError } from '@cllm/core'
import { continuing, keepFinalStatistics } from './final-statistics.js'
import {
  leastRecentlyUsed,
  type Lease,
  type LoadedModel,
  type PooledModel,
  type Waiter,
} from './pooled-model.js'
import type { ModelPoolOptions } from './model-pool-options.js'
import {
  explainMemory,
  mayFit,
  reasonOf,
  refuseWaiters,
  removed,
  shuttingDown,
} from './refusals.js'

/** How a model is held. */
export interface HoldOptions {
  readonly keepAliveMs?: number | undefined
  /** Ends the waiting; the load goes on. */
  readonly signal?: AbortSignal | undefined
  /** Whether the caller tells of a failure: then it is logged at debug level only. */
  readonly isTold?: boolean
}

/**
 * Loads and unloads models. One is loaded at a time, in the order of the first request for each, so
 * that each load sees the memory that the one before left. The least recently used model makes room; a
 * model in use is unloaded when its last use ends, and new requests for it queue behind the model that
 * it makes room for: no model is passed over for good. New requests for a model that is asked to leave
 * wait until it has left, so that it does.
 */
export class ModelLoader {
  /** Models that requests wait for, the longest waiting first. */
  readonly #wanted: PooledModel[] = []
  /** The model that makes room as soon as it is unused. */
  #victim: PooledModel | undefined
  /** Models that are loading, loaded or unloading, also those that the pool has removed. */
  readonly #present = new Set<PooledModel>()
  readonly #closing = new AbortController()
  /** Called when something has changed. */
  readonly #onAdvance: (() => void)[] = []
  #isOpen = true

  constructor(
    private readonly options: ModelPoolOptions,
    private readonly clock: Clock,
    private readonly logger: Logger,
    private readonly onLost: (model: string, reason: string) => void = () => {},
  ) {}

  /** Leases a model if it is loaded and stays. */
  holdNow(model: PooledModel, keepAliveMs?: number): Lease | undefined {
    const { loaded } = model
    if (loaded === undefined || model.state !== 'loaded') return undefined
    if (model === this.#victim || model.isUnwanted) return undefined
    return this.#enter(model, loaded, keepAliveMs)
  }

  /** Loads and leases a model. Throws what its load throws, and `model_not_found` for a removed one. */
  async hold(model: PooledModel, { signal, ...options }: HoldOptions = {}): Promise<Lease> {
    if (signal?.aborted === true) throw reasonOf(signal)
    if (!this.#isOpen) throw shuttingDown()
    if (model.isRemoved) throw removed(model)
    const present = this.holdNow(model, options.keepAliveMs)
    if (present !== undefined) return present
    const { maxWaiting } = this.options
    if (model.waiters.size >= maxWaiting) {
      const message = `${maxWaiting} requests wait for the model ${model.name}, which is the limit`
      throw new CllmError('queue_full', message)
    }
    return await new Promise((resolve, reject) => {
      const waiter: Waiter = { ...options, resolve, reject }
      model.waiters.add(waiter)
      const leave = (): void => {
        if (!model.waiters.delete(waiter)) return
        reject(reasonOf(signal))
        this.#advance()
      }
      signal?.addEventListener('abort', leave, { once: true })
      if (!this.#wanted.includes(model)) this.#wanted.push(model)
      this.#advance()
    })
  }

  /**
   * Unloads the model as soon as those who use it now are done; resolves when its memory is free. A
   * load that nobody waits for any more is ended. Later requests load it again.
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

  /** Unloads the model for good: who waits for it gets `model_not_found`, and its load is ended. */
  async remove(model: PooledModel): Promise<void> {
    model.removal.abort()
    refuseWaiters(model, removed(model))
    await this.unload(model)
  }

  /** Refuses new requests; resolves when those that run, or wait for a model to be loaded, are done. */
  async drain(): Promise<void> {
    this.#isOpen = false
    const models = new Set([...this.#present, ...this.#wanted])
    await Promise.all([...models].map(async (model) => await this.#drained(model)))
  }

  /** Ends all models at once. */
  async close(): Promise<void> {
    this.#isOpen = false
    this.#closing.abort()
    for (const model of this.#wanted.splice(0)) refuseWaiters(model, shuttingDown())
    const gone = [...this.#present].map(async (model) => {
      if (model.state === 'loaded') void this.#evict(model)
      await new Promise<void>((resolve) => void model.onUnloaded.push(resolve))
    })
    await Promise.all(gone)
  }

  async #drained(model: PooledModel): Promise<void> {
    // An engine that is drained takes no requests: those that wait for it come first.
    if (model.waiters.size > 0) {
      while (model.waiters.size + model.users > 0) {
        await new Promise<void>((resolve) => void this.#onAdvance.push(resolve))
      }
    }
    await model.loaded?.client.drain()
  }

  #enter(model: PooledModel, loaded: LoadedModel, keepAliveMs: number | undefined): Lease {
    model.users++
    model.lastUsed = this.clock.now()
    model.keepAliveMs = keepAliveMs ?? model.keepAliveMs
    model.stay?.()
    let isHeld = true
    const release = (): void => {
      if (!isHeld) return
      isHeld = false
      // An engine that is gone has no users any more.
      if (model.loaded !== loaded) return
      model.users--
      model.lastUsed = this.clock.now()
      this.#settle(model)
    }
    return { client: loaded.client, release }
  }

  /** An unused model is unloaded now or at its expiry; waiting loads may then proceed. */
  #settle(model: PooledModel): void {
    if (model.state === 'loaded' && model.users === 0) {
      if (model.isUnwanted || model.keepAliveMs <= 0) void this.#evict(model)
      else if (model.keepAliveMs < Infinity && model.expiresAt === undefined) {
        const at = model.lastUsed + model.keepAliveMs
        model.leaveAt(at, this.clock, () => void this.#evict(model))
      }
    }
    this.#advance()
  }

  /** Advances the first waiting model: resolves its leases, makes room, or loads it. */
  #advance(): void {
    for (const call of this.#onAdvance.splice(0)) call()
    this.#victim = undefined
    for (let next = this.#wanted[0]; next !== undefined; next = this.#wanted[0]) {
      if (next.state === 'loading' || next.state === 'unloading') return
      if (next.state === 'loaded' && next.isUnwanted) return
      if (next.state === 'unloaded' && next.waiters.size > 0) {
        if (this.#makeRoom(next)) void this.#load(next)
        return
      }
      this.#wanted.shift()
      this.#admit(next)
    }
  }

  /** Whether a model can be loaded now; if not, starts or schedules an unload to make room. */
  #makeRoom(wanted: PooledModel): boolean {
    const present = [...this.#present]
    if (present.some(({ state }) => state === 'unloading')) return false
    if (present.length < this.options.maxLoaded && !wanted.isShortOfMemory) return true
    const idle = present.filter(({ users }) => users === 0)
    const victim = leastRecentlyUsed(idle.length > 0 ? idle : present)
    if (victim === undefined) return true
    if (victim.users > 0) this.#victim = victim
    else {
      wanted.isShortOfMemory = false
      void this.#evict(victim)
    }
    return false
  }

  #admit(model: PooledModel): void {
    const { loaded } = model
    if (loaded === undefined) return
    for (const one of model.waiters) one.resolve(this.#enter(model, loaded, one.keepAliveMs))
    model.waiters.clear()
  }

  async #load(model: PooledModel): Promise<void> {
    const { source, name } = model
    const since = this.clock.now()
    const loading = new AbortController()
    const signal = AbortSignal.any([this.#closing.signal, model.removal.signal, loading.signal])
    model.loading = loading
    this.#present.add(model)
    model.state = 'loading'
    model.isShortOfMemory = false
    model.keepAliveMs = source.keepAliveMs ?? this.options.keepAliveMs
    let starting: LoadedModel | undefined
    try {
      starting = await source.load({ heldBytes: this.#heldBytes(), signal })
      await model.meet(starting)
      model.loaded = continuing(starting, model.past)
    } catch (error) {
      await starting?.close().catch(() => {})
      this.#failed(model, CllmError.from(error))
      return
    }
    model.state = 'loaded'
    model.error = undefined
    model.lastUsed = this.clock.now()
    this.logger.info({ model: name, ms: model.lastUsed - since }, 'the model is loaded')
    const { loaded } = model
    void loaded.gone?.then((reason) => this.#lost(model, loaded, reason))
    // Who came after the end was asked for waits for the next load.
    if (signal.aborted) return await this.#evict(model)
    model.loading = undefined
    this.#admit(model)
    this.#settle(model)
  }

  #failed(model: PooledModel, error: CllmError): void {
    const isEnded = model.loading?.signal.aborted === true
    this.#forget(model)
    const others = [...this.#present]
    const isShort = error.code === 'insufficient_memory' && others.length > 0
    if (model.isRemoved) this.logger.info({ model: model.name }, 'the removed model is not loaded')
    else if (this.#closing.signal.aborted) {
      this.logger.info({ model: model.name }, 'the model is not loaded: the server ends')
      refuseWaiters(model, shuttingDown())
    } else if (isEnded) this.logger.info({ model: model.name }, 'the load was ended')
    else if (isShort && mayFit(error, this.#heldBytes())) model.isShortOfMemory = true
    else {
      model.error = isShort ? explainMemory(error, others) : error
      const { code, message } = model.error
      const isBug = code === 'internal' || code === 'backend_failed'
      const fields = { model: model.name, ...(isBug ? { err: model.error } : { code }) }
      const level = [...model.waiters].some(({ isTold }) => isTold) ? 'debug' : 'error'
      this.logger[level](fields, `the model cannot be loaded: ${message}`)
      refuseWaiters(model, model.error)
    }
    this.#advance()
  }

  #lost(model: PooledModel, loaded: LoadedModel, reason: string): void {
    if (model.loaded !== loaded || model.state !== 'loaded') return
    const message = `The engine of ${model.name} is gone and could not be started again: ${reason}`
    model.error = new CllmError('engine_unavailable', message)
    this.logger.error({ model: model.name, reason }, 'the engine is gone; its next use loads it')
    model.stay?.()
    if (this.#isOpen) void keepFinalStatistics(model, loaded, this.clock)
    this.#forget(model)
    this.onLost(model.name, reason)
    this.#advance()
  }

  async #evict(model: PooledModel): Promise<void> {
    const { loaded, name } = model
    if (loaded === undefined || model.state !== 'loaded') return
    model.stay?.()
    model.state = 'unloading'
    if (this.#isOpen) await keepFinalStatistics(model, loaded, this.clock)
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
    model.forget()
  }

  #heldBytes(): number {
    return [...this.#present].reduce((sum, { loaded }) => sum + (loaded?.memoryBytes ?? 0), 0)
  }
}
