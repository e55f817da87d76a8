import {
  type Clock,
  type EngineCalls,
  type EngineClient,
  type GenerateEvent,
  type GenerateRequest,
  type OpenOptions,
  type Recording,
  cancelled,
  CllmError,
  defined,
} from '@cllm/core'
import { CallForwarder, takesSignal } from '../remote/engine-calls.js'
import { watchStream } from '../client/watch-stream.js'
import { deferredStream } from './deferred-stream.js'
import type { ModelLoader } from './model-loader.js'
import type { Lease, PooledModel } from './pooled-model.js'

const nothing = (): void => {}

type SignalOption = NonNullable<Parameters<EngineCalls['tokenize']>[1]>

/** The engine of a pooled model: calls and requests wait until the model is loaded. */
export class PooledEngineClient extends CallForwarder implements EngineClient {
  /** The lease that is held until the signal fires. */
  #leasing: Promise<Lease> | undefined
  #leased: Lease | undefined

  constructor(
    private readonly loader: ModelLoader,
    private readonly model: PooledModel,
    private readonly options: OpenOptions,
    private readonly clock: Clock,
  ) {
    super()
  }

  submit(
    request: GenerateRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<GenerateEvent> {
    const lease = this.#leaseNow()
    if (lease === undefined) return this.#submitLate(request, options.signal)
    return submitTo(lease, request, options)
  }

  cancel(id: string, reason?: string): void {
    const error = reason === undefined ? undefined : new CllmError('cancelled', reason)
    this.model.late.get(id)?.abort(error)
    this.model.loaded?.client.cancel(id, reason)
  }

  async recording(): Promise<Recording> {
    return await this.#ask(async (engine) => {
      const recording = await engine.recording?.()
      if (recording !== undefined) return recording
      throw new CllmError('unsupported', `The engine of ${this.model.name} has no flight recorder`)
    })
  }

  /** A model that is not loaded has nothing to drain. */
  override async drain(): Promise<void> {
    await this.model.loaded?.client.drain()
  }

  override async close(): Promise<void> {
    await this.model.loaded?.client.close()
  }

  override async setScheduler(
    ...policy: Parameters<EngineCalls['setScheduler']>
  ): ReturnType<EngineCalls['setScheduler']> {
    const active = await super.setScheduler(...policy)
    this.model.policy = policy
    return active
  }

  protected override async forward(
    name: keyof EngineCalls,
    values: readonly unknown[],
  ): Promise<unknown> {
    const { signal } = (takesSignal(name) ? (values[1] as SignalOption | undefined) : {}) ?? {}
    return await this.#ask(async (engine) => {
      const call = engine[name] as (...given: readonly unknown[]) => Promise<unknown>
      return await call.call(engine, ...values)
    }, signal)
  }

  async #ask<T>(question: (engine: EngineClient) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const lease = this.#leaseNow() ?? (await this.#lease(signal, () => cancelled(signal)))
    try {
      return await question(lease.client)
    } finally {
      lease.release()
    }
  }

  #leaseNow(): Lease | undefined {
    const { until, keepAliveMs } = this.options
    if (this.#leased !== undefined || until?.aborted === true) return this.#leased
    const lease = this.loader.holdNow(this.model, keepAliveMs)
    return lease === undefined || until === undefined ? lease : this.#keep(lease, until)
  }

  /** Loads the model if need be; fails when the signal aborts first, and the load goes on. */
  async #lease(signal: AbortSignal | undefined, failure: () => CllmError): Promise<Lease> {
    const { until, keepAliveMs } = this.options
    if (until === undefined) {
      const lease = this.loader.hold(this.model, { keepAliveMs, signal })
      return await unlessAborted(lease, signal, failure)
    }
    this.#leasing ??= this.loader
      .hold(this.model, { keepAliveMs, signal: until })
      .then((lease) => this.#keep(lease, until))
      .catch((error: unknown) => {
        // The next call tries again.
        this.#leasing = undefined
        throw error
      })
    return await unlessAborted(this.#leasing, signal, failure)
  }

  #keep(lease: Lease, until: AbortSignal): Lease {
    const release = (): void => {
      this.#leasing = this.#leased = undefined
      lease.release()
    }
    const kept = { client: lease.client, release: nothing }
    this.#leased = kept
    if (until.aborted) release()
    else until.addEventListener('abort', release, { once: true })
    return kept
  }

  #submitLate(
    request: GenerateRequest,
    signal: AbortSignal | undefined,
  ): AsyncIterableIterator<GenerateEvent> {
    const { clock, model } = this
    const arrival = clock.now()
    const { id, timeoutMs = Infinity } = request
    if (id !== undefined && model.late.has(id)) {
      const message = `A request with the id "${id}" is under way`
      return deferredStream(Promise.reject(new CllmError('duplicate_request', message)), nothing)
    }
    const leaving = new AbortController()
    const timeout = (): void =>
      leaving.abort(new CllmError('timeout', 'The model was not loaded within the time limit'))
    const cancelTimer =
      timeoutMs === Infinity ? nothing : clock.at(arrival + timeoutMs, () => timeout())
    if (id !== undefined) model.late.set(id, leaving)
    const either = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal])
    const failure = (): CllmError => {
      const reason: unknown = leaving.signal.reason
      return CllmError.isInstance(reason) ? reason : cancelled(signal)
    }
    const start = async () => {
      try {
        const lease = await this.#lease(either, failure)
        const late = arrivedEarlier(request, clock.now() - arrival)
        return submitTo(lease, late, defined({ signal }))
      } finally {
        cancelTimer()
        if (id !== undefined) model.late.delete(id)
      }
    }
    return deferredStream(start(), () => leaving.abort())
  }
}

/** The request with the milliseconds that it has waited here. */
function arrivedEarlier(request: GenerateRequest, waitedMs: number): GenerateRequest {
  const { arrivedMsAgo = 0, continued } = request
  const elapsedMs = waitedMs + (continued?.elapsedMs ?? 0)
  return {
    ...request,
    arrivedMsAgo: arrivedMsAgo + waitedMs,
    ...(continued === undefined ? {} : { continued: { ...continued, elapsedMs } }),
  }
}

function submitTo(
  { client, release }: Lease,
  request: GenerateRequest,
  options: { readonly signal?: AbortSignal },
): AsyncIterableIterator<GenerateEvent> {
  const events = client.submit(request, options)
  return release === nothing ? events : watchStream(events, { onEnd: release })
}

/** The lease, or the failure if the signal aborts first; a lease that comes then is given back. */
async function unlessAborted(
  leasing: Promise<Lease>,
  signal: AbortSignal | undefined,
  failure: () => CllmError,
): Promise<Lease> {
  if (signal === undefined) return await leasing
  return await new Promise((resolve, reject) => {
    const onAbort = (): void => reject(failure())
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    const settle = (lease: Lease): void => {
      signal.removeEventListener('abort', onAbort)
      if (signal.aborted) lease.release()
      resolve(lease)
    }
    leasing.then(settle, (error: unknown) => {
      signal.removeEventListener('abort', onAbort)
      reject(error)
    })
  })
}
