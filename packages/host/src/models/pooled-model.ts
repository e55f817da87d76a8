import {
  type Clock,
  type EngineClient,
  type EngineInfo,
  type ModelState,
  type ModelUrgency,
  type ModelStatus,
  type ModelView,
  type WaitingForModel,
  type EngineStatistics,
  type GenerateRequest,
  type Recording,
  type SchedulerInfo,
  CllmError,
  within,
} from '@cllm/core'
import { overriding } from '../client/wrapping.js'
import { EventStreams } from '../remote/event-streams.js'
import { pastOf, sumStatistics } from '../statistics/sum-statistics.js'

/** Limits on models in memory. */
export interface ModelPoolOptions {
  /** Models in memory at a time; default: as many as fit. */
  readonly maxLoaded: number
  /** Milliseconds that a model stays after its last use; default Infinity. */
  readonly keepAliveMs: number
  /** Whether a request loads its model; default true. Otherwise only a request to load it does. */
  readonly autoload: boolean
  /** Requests that may wait for a model to be loaded; default 1,024. */
  readonly maxWaiting: number
  /** Time limit of requests without one of their own, as in the engines; default Infinity. */
  readonly requestTimeoutMs: number
}

/** The defaults of {@link ModelPoolOptions}. */
export const defaultModelPoolOptions: ModelPoolOptions = Object.freeze({
  maxLoaded: Infinity,
  keepAliveMs: Infinity,
  autoload: true,
  maxWaiting: 1024,
  requestTimeoutMs: Infinity,
})

/** The circumstances of a load. */
export interface LoadContext {
  /** Bytes of RAM that the models in memory hold. */
  readonly heldBytes: number
  /** Fires when nobody wants the model any more: the server closes, or the model is removed. */
  readonly signal: AbortSignal
}

/** A model that is in memory. */
export interface LoadedModel {
  readonly client: EngineClient
  /** Bytes of RAM that it holds; default 0. */
  readonly memoryBytes?: number
  /** Resolves when its engine is gone and cannot be started again, with the reason. */
  readonly gone?: Promise<string>
  /** Ends it at once, and resolves when its memory is free. */
  close(): Promise<void>
}

/** A model that can be loaded. */
export interface LoadableModel {
  /** The name that clients use. */
  readonly name: string
  /** Milliseconds that it stays in memory after its last use; default: the pool's. */
  readonly keepAliveMs?: number
  /** Loads it. `insufficient_memory` makes the pool unload others, if it has any, and try again. */
  load(context: LoadContext): Promise<LoadedModel>
}

/** Keeps a model in memory. */
export interface Lease {
  readonly client: EngineClient
  /** How long the request waited for its turn and for the load; absent: not at all. */
  readonly waited?: GenerateRequest['modelWait']
  /** Ends the lease; absent if another lease holds the model for longer. */
  readonly release?: () => void
}

/** Options of a lease. */
export interface HoldOptions {
  readonly keepAliveMs?: number | undefined
  /** Ends the waiting; the load goes on. */
  readonly signal?: AbortSignal | undefined
  /** Whether the caller reports a failure itself, which is then logged at debug level only. */
  readonly isTold?: boolean
  /** Default: 0, and no deadline. */
  readonly urgency?: ModelUrgency | undefined
}

/** A request that waits for a model. */
export interface Waiter extends WaitingForModel, Pick<HoldOptions, 'keepAliveMs' | 'isTold'> {
  readonly resolve: (hold: Lease) => void
  readonly reject: (error: CllmError) => void
}

/** Milliseconds that an engine may take to answer with its recording and counters before it is ended. */
const patienceMs = 1000

/** A model of a pool, with its state, users and waiting requests. */
export class PooledModel {
  state: ModelState = 'unloaded'
  loaded: LoadedModel | undefined
  info: EngineInfo | undefined
  /** The policy that its engine started with. */
  scheduler: SchedulerInfo | undefined
  /** The policy that was set while it was loaded, with its options; the next engine gets it, too. */
  policy: Parameters<EngineClient['setScheduler']> | undefined
  /** The flight recording of its last engine. */
  recording: Recording | undefined
  /** The statistics of its engines up to the last one that left memory. */
  past: EngineStatistics | undefined
  error: CllmError | undefined
  users = 0
  lastUsed = 0
  /** How often it was loaded, and unloaded to make room. */
  loads = 0
  swaps = 0
  /** Moving average of its loads' milliseconds: each load counts as much as all before it together. */
  loadMs: number | undefined
  /** Milliseconds to restore what its slots held when it was last unused, by computing or by reading it. */
  lostMs = 0
  keepAliveMs = Infinity
  /** When it is to be unloaded, in milliseconds of the clock. */
  expiresAt: number | undefined
  /** Whether it is unloaded as soon as it is unused, whatever its time to live. */
  isUnwanted = false
  /** Whether the pool has removed it: it is never loaded again. */
  isRemoved = false
  /** Aborts the load in progress. */
  loading: AbortController | undefined
  /** Cancels the timer that unloads it; undefined: there is none. */
  stay: (() => void) | undefined
  readonly waiters = new Set<Waiter>()
  /** Called when it is unloaded. */
  readonly onUnloaded: (() => void)[] = []
  /** The requests that came before it was loaded. */
  readonly late = new EventStreams()

  constructor(
    readonly source: LoadableModel,
    private readonly clock: Clock,
  ) {}

  get name(): string {
    return this.source.name
  }

  get status(): ModelStatus {
    const { name, state, users, waiters, loads, swaps, clock, error } = this
    const expiresAt = this.expiresAt && this.expiresAt - clock.now() + clock.wall()
    const { info, scheduler, recording, past } = this
    const now = { name, state, users, waiting: waiters.size, expiresAt, error }
    return { ...now, info, scheduler, recording, past, loads, swaps }
  }

  /** The model as the model scheduler sees it. */
  view(fits: boolean, isDraining: boolean): ModelView {
    const { name, state, users, lastUsed, loadMs, lostMs } = this
    const waiting = [...this.waiters]
    return { name, state, isDraining, users, lastUsed, loadMs, lostMs, fits, waiting }
  }

  /** Leases the loaded model: it stays in memory until the lease is released. */
  enter(
    keepAliveMs: number | undefined,
    onRelease: (model: PooledModel, loaded: LoadedModel) => void,
  ): Lease {
    const loaded = this.loaded!
    this.users++
    this.lastUsed = this.clock.now()
    this.keepAliveMs = keepAliveMs ?? this.keepAliveMs
    this.stay?.()
    let isHeld = true
    const release = (): void => {
      if (!isHeld) return
      isHeld = false
      // An engine that is gone has no users any more.
      if (this.loaded !== loaded) return
      this.users--
      this.lastUsed = this.clock.now()
      onRelease(this, loaded)
    }
    return { client: loaded.client, release }
  }

  /** Estimates {@link lostMs} from what the slots of its engine hold. */
  async measure(loaded: LoadedModel): Promise<void> {
    const statistics = await loaded.client.statistics().catch(() => undefined)
    if (statistics === undefined || this.loaded !== loaded) return
    const { slots, prefillMs, prefillTokens, cache } = statistics
    const tokens = slots.reduce((sum, slot) => sum + slot.tokens, 0)
    const computeMs = (tokens * prefillMs) / Math.max(1, prefillTokens)
    // Slots are saved if there are state files, even in memory. Until the speed of reading is known, it is assumed to
    // take as long as a load.
    const { loadMs = Infinity, hitTokens = 0 } = cache?.disk ?? {}
    const readMs = hitTokens > 0 ? (tokens * loadMs) / hitTokens : cache?.disk && this.loadMs
    this.lostMs = Math.min(computeMs, readMs ?? Infinity)
  }

  /**
   * Adopts a new engine: reads its info, and gives it the policy that was set. Counters continue from those of the
   * engine before.
   */
  async meet(loaded: LoadedModel): Promise<LoadedModel> {
    const { client } = loaded
    this.info = await client.info()
    this.scheduler = await client.getScheduler()
    if (this.policy !== undefined) await client.setScheduler(...this.policy)
    const { past } = this
    if (past === undefined) return (this.loaded = loaded)
    const statistics = async () => sumStatistics(await client.statistics(), past)
    return (this.loaded = overriding(loaded, { client: overriding(client, { statistics }) }))
  }

  /**
   * Keeps the recording and the counters of an engine that ends. If it does not answer in time, the earlier ones stay.
   */
  async keepFinalStatistics({ client }: LoadedModel): Promise<void> {
    const inTime = async <T>(ask: () => Promise<T> | undefined): Promise<T | undefined> =>
      await within(this.clock, patienceMs, Promise.resolve().then(ask), () => undefined).catch(
        () => undefined,
      )
    const [recording, statistics] = await Promise.all([
      inTime(() => client.recording?.()),
      inTime(() => client.statistics()),
    ])
    this.recording = recording ?? this.recording
    this.past = statistics === undefined ? this.past : pastOf(statistics)
  }

  /** Rejects all requests that wait for it. */
  refuse(error: CllmError): void {
    for (const { reject } of this.waiters) reject(error)
    this.waiters.clear()
  }

  /** Has `leave` unload it at this time, unless it is used before. */
  leaveAt(at: number, leave: () => void): void {
    const cancel = this.clock.at(at, leave)
    this.expiresAt = at
    this.stay = () => {
      cancel()
      this.stay = this.expiresAt = undefined
    }
  }

  /** Notes that it is unloaded. */
  forget(): void {
    this.state = 'unloaded'
    this.loaded = undefined
    this.users = this.lostMs = 0
    this.isUnwanted = false
    this.loading = undefined
    for (const call of this.onUnloaded.splice(0)) call()
  }
}

/** The failure of requests for a model that was removed from the pool. */
export function removed({ name }: PooledModel): CllmError {
  const message = `This server does not serve the model ${name} any more`
  return new CllmError('model_not_found', message, { details: { field: 'model' } })
}

/** The reason why a client gave up waiting. */
export function reasonOf(signal: AbortSignal | undefined): CllmError {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason)
    ? reason
    : new CllmError('cancelled', 'The client left before the model was loaded')
}

/** Whether a model that did not fit would fit if the models in memory were unloaded. */
export function mayFit({ details }: CllmError, heldBytes: number): boolean {
  const { total, available } = details
  if (typeof total !== 'number' || typeof available !== 'number' || heldBytes === 0) return true
  return total <= available + heldBytes
}

/** The failure, with the memory of each loaded model in its message. */
export function explainMemory(error: CllmError, present: readonly PooledModel[]): CllmError {
  const held = present.map(({ name, loaded }) => `${name} ${gigabytes(loaded?.memoryBytes ?? 0)}`)
  const message = `${error.message}; models in memory hold ${held.join(', ')}`
  return new CllmError(error.code, message, { details: error.details, cause: error })
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
