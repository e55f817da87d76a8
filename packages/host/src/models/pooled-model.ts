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
import { pastOf, sumStatistics } from '../statistics/sum-statistics.js'

/** Limits on models in memory. */
export interface ModelPoolOptions {
  /** Models in memory at a time; default: as many as fit. */
  readonly maxLoaded: number
  /** Milliseconds that a model stays after its last use; default Infinity. */
  readonly keepAliveMs: number
  /** Whether a request loads its model; default true. Otherwise only who asks for the load itself does. */
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

/** What a load has to reckon with. */
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
  /** What clients call it. */
  readonly name: string
  /** Milliseconds that it stays in memory after its last use; default: as the pool says. */
  readonly keepAliveMs?: number
  /** Loads it. `insufficient_memory` makes the pool unload others, if it has any, and try again. */
  load(context: LoadContext): Promise<LoadedModel>
}

/** Keeps a model in memory. */
export interface Lease {
  readonly client: EngineClient
  /** What had to be waited for until it was there; absent: nothing. */
  readonly waited?: GenerateRequest['modelWait']
  /** Absent where another lease holds it for longer. */
  readonly release?: () => void
}

/** How a model is held. */
export interface HoldOptions {
  readonly keepAliveMs?: number | undefined
  /** Ends the waiting; the load goes on. */
  readonly signal?: AbortSignal | undefined
  /** Whether the caller tells of a failure: then it is logged at debug level only. */
  readonly isTold?: boolean
  /** Default: 0, and no deadline. */
  readonly urgency?: ModelUrgency | undefined
}

/** Who waits for a model. */
export interface Waiter extends WaitingForModel {
  readonly keepAliveMs?: number | undefined
  readonly isTold?: boolean
  readonly resolve: (hold: Lease) => void
  readonly reject: (error: CllmError) => void
}

/** Milliseconds that an engine may take to say what is kept of it before it is ended. */
const patienceMs = 1000

/** What is known of a model of a pool. */
export class PooledModel {
  state: ModelState = 'unloaded'
  loaded: LoadedModel | undefined
  info: EngineInfo | undefined
  /** What its engine started with. */
  scheduler: SchedulerInfo | undefined
  /** The policy that was set while it was loaded, with its options; the next engine gets it, too. */
  policy: Parameters<EngineClient['setScheduler']> | undefined
  /** Of the engine that was there last. */
  recording: Recording | undefined
  /** What its engines had counted when the last one left memory. */
  past: EngineStatistics | undefined
  error: CllmError | undefined
  users = 0
  lastUsed = 0
  /** How often it was loaded, and unloaded to make room. */
  loads = 0
  swaps = 0
  /** Milliseconds that its loads took: each counts as much as all before it together. */
  loadMs: number | undefined
  /** Milliseconds that it would take to have again what its slots held when it was last unused: computed, or read. */
  lostMs = 0
  keepAliveMs = Infinity
  /** In milliseconds of the clock. */
  expiresAt: number | undefined
  /** Whether it is to go when nobody uses it, whatever its time to live. */
  isUnwanted = false
  /** Whether the pool has removed it: it is never loaded again. */
  isRemoved = false
  /** Ends the load that is under way. */
  loading: AbortController | undefined
  /** It does not leave at its time any more; undefined: it has none. */
  stay: (() => void) | undefined
  readonly waiters = new Set<Waiter>()
  /** Called when it is out of memory. */
  readonly onUnloaded: (() => void)[] = []
  /** Requests by id that wait for it. */
  readonly late = new Map<string, AbortController>()

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

  /** What a scheduler is shown of it. */
  view(fits: boolean, isDraining: boolean): ModelView {
    const { name, state, users, lastUsed, loadMs, lostMs } = this
    const waiting = [...this.waiters]
    return { name, state, isDraining, users, lastUsed, loadMs, lostMs, fits, waiting }
  }

  /** Takes it into use; what runs until the lease is released keeps it. */
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

  /** Asks its engine what its slots hold. */
  async measure(loaded: LoadedModel): Promise<void> {
    const statistics = await loaded.client.statistics().catch(() => undefined)
    if (statistics === undefined || this.loaded !== loaded) return
    const { slots, prefillMs, prefillTokens, cache } = statistics
    const tokens = slots.reduce((sum, slot) => sum + slot.tokens, 0)
    const computeMs = (tokens * prefillMs) / Math.max(1, prefillTokens)
    // What its slots hold is saved where there are files, be they in memory. Reading is taken for as long as its load
    // until it is known.
    const { loadMs = Infinity, hitTokens = 0 } = cache?.disk ?? {}
    const readMs = hitTokens > 0 ? (tokens * loadMs) / hitTokens : cache?.disk && this.loadMs
    this.lostMs = Math.min(computeMs, readMs ?? Infinity)
  }

  /**
   * Takes a new engine and what it says of itself, and gives it the policy that was set. Counters go on from those of
   * the engine before.
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

  /** Notes what outlives its engine: recording and counters. One that does not answer in time leaves none. */
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

  /** Refuses everyone who waits for it. */
  refuse(error: CllmError): void {
    for (const { reject } of this.waiters) reject(error)
    this.waiters.clear()
  }

  /** It leaves at this time, unless it is used before. */
  leaveAt(at: number, leave: () => void): void {
    const cancel = this.clock.at(at, leave)
    this.expiresAt = at
    this.stay = () => {
      cancel()
      this.stay = this.expiresAt = undefined
    }
  }

  /** It is out of memory. */
  forget(): void {
    this.state = 'unloaded'
    this.loaded = undefined
    this.users = this.lostMs = 0
    this.isUnwanted = false
    this.loading = undefined
    for (const call of this.onUnloaded.splice(0)) call()
  }
}

/** The model was removed from the pool. */
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

/** The failure with what the models in memory hold. */
export function explainMemory(error: CllmError, present: readonly PooledModel[]): CllmError {
  const held = present.map(({ name, loaded }) => `${name} ${gigabytes(loaded?.memoryBytes ?? 0)}`)
  const message = `${error.message}; models in memory hold ${held.join(', ')}`
  return new CllmError(error.code, message, { details: error.details, cause: error })
}

const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
