import type {
  Clock,
  EngineCalls,
  EngineClient,
  GenerateEvents,
  GenerateRequest,
  SubmitOptions,
  ModelUrgency,
  OpenOptions,
  Recording,
} from '@cllm/core'
import { cancelled, CllmError, defined, isOfBatch } from '@cllm/core'
import { CallForwarder, callTraits } from '../remote/engine-calls.js'
import { unlessAborted, watchStream } from '../client/wrapping.js'
import { duplicate, InFlightRequest } from '../fleet/in-flight-request.js'
import type { ModelLoader } from './model-loader.js'
import type { Lease, PooledModel } from './pooled-model.js'

const nothing = (): void => {}

type SignalOption = NonNullable<Parameters<EngineCalls['tokenize']>[1]>

/** The engine of a pooled model: calls and requests wait until the model is loaded. */
export class PooledEngineClient extends CallForwarder implements EngineClient {
  /** The lease that is held until {@link OpenOptions.until} fires. */
  #leasing: Promise<Lease> | undefined
  #leased: Lease | undefined
  /**
   * Absent for batches: they give way to clients, so they must not keep a model in memory that a client's model may
   * need.
   */
  readonly #until: AbortSignal | undefined

  constructor(
    private readonly loader: ModelLoader,
    private readonly model: PooledModel,
    private readonly options: OpenOptions,
    private readonly clock: Clock,
  ) {
    super()
    const { until, urgency } = options
    this.#until = urgency?.priority !== undefined && isOfBatch(urgency) ? undefined : until
  }

  submit(request: GenerateRequest, options: SubmitOptions = {}): GenerateEvents {
    const lease = this.#leaseNow()
    if (lease === undefined) return this.#submitLate(request, options.signal)
    return this.#submitTo(lease, request, options)
  }

  cancel(id: string, reason?: string): void {
    const error = reason === undefined ? undefined : new CllmError('cancelled', reason)
    this.model.late.get(id)?.abort(error)
    this.model.loaded?.client.cancel(id, reason)
  }

  async recording(): Promise<Recording> {
    return (await this.forward('recording', [])) as Recording
  }

  /** A model that is not loaded has nothing to drain. */
  override async drain(): Promise<void> {
    await this.model.loaded?.client.drain()
  }

  override async close(): Promise<void> {
    await this.model.loaded?.client.close()
  }

  override async setScheduler(...policy: Parameters<EngineCalls['setScheduler']>) {
    const active = await super.setScheduler(...policy)
    this.model.policy = policy
    return active
  }

  protected override async forward(
    name: keyof EngineCalls | 'recording',
    values: readonly unknown[],
  ) {
    const takesSignal = name !== 'recording' && callTraits[name].takesSignal === true
    const { signal } = (takesSignal ? (values[1] as SignalOption | undefined) : {}) ?? {}
    const lease = this.#leaseNow() ?? (await this.#lease(signal, () => cancelled(signal)))
    try {
      const { client } = lease
      const call = client[name] as ((...given: unknown[]) => Promise<unknown>) | undefined
      if (call !== undefined) return await call.apply(client, [...values])
      throw new CllmError('unsupported', `The engine of ${this.model.name} has no flight recorder`)
    } finally {
      lease.release?.()
    }
  }

  #leaseNow(): Lease | undefined {
    const { keepAliveMs } = this.options
    const until = this.#until
    if (this.#leased !== undefined || until?.aborted === true) return this.#leased
    const lease = this.loader.holdNow(this.model, keepAliveMs)
    return lease === undefined || until === undefined ? lease : this.#keep(lease, until)
  }

  /** Loads the model if need be. If the signal aborts first, this fails and the load goes on. */
  async #lease(
    signal: AbortSignal | undefined,
    failure: () => CllmError,
    urgency: ModelUrgency = this.options.urgency ?? {},
  ): Promise<Lease> {
    const { keepAliveMs, until: end } = this.options
    const until = this.#until
    const hold = async (wanted: AbortSignal | undefined) =>
      await this.loader.hold(this.model, { keepAliveMs, urgency, signal: wanted })
    if (until === undefined) {
      // Without a signal of its own, a batch's call ends with the batch.
      const wanted = signal ?? end
      return await unlessAborted(hold(wanted), wanted, failure, giveBack)
    }
    this.#leasing ??= hold(until)
      .then((lease) => this.#keep(lease, until))
      .catch((error: unknown) => {
        // The next call tries again.
        this.#leasing = undefined
        throw error
      })
    return await unlessAborted(this.#leasing, signal, failure, giveBack)
  }

  #keep(lease: Lease, until: AbortSignal): Lease {
    const { release: end, ...kept } = lease
    const release = (): void => {
      this.#leasing = this.#leased = undefined
      end?.()
    }
    this.#leased = kept
    if (until.aborted) release()
    else until.addEventListener('abort', release, { once: true })
    return kept
  }

  #submitLate(request: GenerateRequest, signal: AbortSignal | undefined): GenerateEvents {
    const { clock, loader, model } = this
    const { id, timeoutMs = loader.options.requestTimeoutMs } = request
    const entry = new InFlightRequest(id ?? '', request, clock.now())
    if (id !== undefined && model.late.has(id)) {
      return deferredStream(Promise.reject(duplicate(id)), nothing)
    }
    const leaving = new AbortController()
    const timeout = (): void =>
      leaving.abort(new CllmError('timeout', 'The model was not loaded within the time limit'))
    const cancelTimer =
      timeoutMs === Infinity ? nothing : clock.at(clock.now() + timeoutMs, () => timeout())
    if (id !== undefined) model.late.set(id, leaving)
    const either = signal === undefined ? leaving.signal : AbortSignal.any([signal, leaving.signal])
    const failure = (): CllmError => {
      const reason: unknown = leaving.signal.reason
      return CllmError.isInstance(reason) ? reason : cancelled(signal)
    }
    const start = async () => {
      try {
        const lease = await this.#lease(either, failure, this.options.urgency ?? request)
        return this.#submitTo(lease, entry.continuedAt(clock.now()), defined({ signal }))
      } finally {
        cancelTimer()
        if (id !== undefined) model.late.delete(id)
      }
    }
    return deferredStream(start(), () => leaving.abort())
  }

  #submitTo(
    { client, release, waited: modelWait }: Lease,
    request: GenerateRequest,
    options: SubmitOptions,
  ): GenerateEvents {
    // Later requests with this lease did not wait.
    if (this.#leased !== undefined) this.#leased = { client }
    const asked = modelWait === undefined ? request : { ...request, modelWait }
    const events = client.submit(asked, options)
    return release === undefined ? events : watchStream(events, { onEnd: release })
  }
}

/** Releases a lease that nobody waits for any more. */
const giveBack = ({ release }: Lease): void => release?.()

/** Events of a request that waits to be submitted. `leave` is called when its consumer leaves first. */
function deferredStream(starting: Promise<GenerateEvents>, leave: () => void): GenerateEvents {
  let isOver = false
  // The reader of the stream gets the failure; without a reader, it must not end the process.
  starting.catch(() => {})
  const iterator: GenerateEvents = {
    [Symbol.asyncIterator]: () => iterator,
    async next() {
      if (isOver) return { done: true, value: undefined }
      try {
        return await (await starting).next()
      } catch (error) {
        if (isOver) return { done: true, value: undefined }
        isOver = true
        throw error
      }
    },
    async return() {
      isOver = true
      leave()
      const events = await starting.catch(() => undefined)
      return (await events?.return?.()) ?? { done: true, value: undefined }
    },
  }
  return iterator
}
