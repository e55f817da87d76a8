import type {
  Clock,
  EngineCalls,
  EngineClient,
  GenerateEvents,
  GenerateRequest,
  SubmitOptions,
  ModelUrgency,
  OpenOptions,
  Random,
  Recording,
} from '@cllm/core'
import { cancelReason, CllmError, isOfBatch } from '@cllm/core'
import { CallForwarder, callTraits } from '../remote/engine-calls.js'
import { requestId } from '../remote/event-streams.js'
import { unlessAborted, watchStream } from '../client/wrapping.js'
import { InFlightRequest } from '../fleet/in-flight-request.js'
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
    private readonly random: Random,
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
    this.model.loaded?.client.cancel(id, reason)
    this.model.late.fail(id, new CllmError('cancelled', reason ?? cancelReason))
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
    const lease = this.#leaseNow() ?? (await this.#lease(signal))
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
    urgency: ModelUrgency = this.options.urgency ?? {},
  ): Promise<Lease> {
    const { keepAliveMs, until: end } = this.options
    const until = this.#until
    const hold = async (wanted: AbortSignal | undefined) =>
      await this.loader.hold(this.model, { keepAliveMs, urgency, signal: wanted })
    if (until === undefined) {
      // Without a signal of its own, a batch's call ends with the batch.
      const wanted = signal ?? end
      return await unlessAborted(hold(wanted), wanted, giveBack)
    }
    this.#leasing ??= hold(until)
      .then((lease) => this.#keep(lease, until))
      .catch((error: unknown) => {
        // The next call tries again.
        this.#leasing = undefined
        throw error
      })
    return await unlessAborted(this.#leasing, signal, giveBack)
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

  /** Submits a request once the model is loaded; from then on its events come by way of its stream here, too. */
  #submitLate(request: GenerateRequest, signal: AbortSignal | undefined): GenerateEvents {
    const { clock, loader } = this
    const { late } = this.model
    const { id = requestId(this.random), timeoutMs = loader.options.requestTimeoutMs } = request
    const entry = new InFlightRequest(id, { ...request, id }, clock.now())
    const leaving = new AbortController()
    const timeout = (): void =>
      late.fail(id, new CllmError('timeout', 'The model was not loaded within the time limit'))
    const start = async (): Promise<void> => {
      const cancelTimer =
        timeoutMs === Infinity ? nothing : clock.at(clock.now() + timeoutMs, timeout)
      try {
        const { urgency = request } = this.options
        const lease = await this.#lease(leaving.signal, urgency).finally(cancelTimer)
        const asked = entry.continuedAt(clock.now())
        const events = this.#submitTo(lease, asked, { signal: leaving.signal })
        for await (const event of events) {
          // The next request may have this id already.
          if (leaving.signal.aborted) break
          late.dispatch([{ id, event }])
        }
      } catch (error) {
        if (!leaving.signal.aborted) late.fail(id, CllmError.from(error))
      }
    }
    return late.open(id, signal, {
      submit: () => void start(),
      cancel: (reason) => leaving.abort(reason && new CllmError('cancelled', reason)),
    })
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
