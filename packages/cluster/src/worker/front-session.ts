import { CallServer, type EngineCallName } from '@cllm/host'
import type { EngineClient, RequestEvent } from '@cllm/core'
import { cancelReason, CllmError, failureOf } from '@cllm/core'
import type { NamedChannel } from '../link/link.js'
import type { FromWorker, StepEvents, ToWorker, WorkerNews } from '../messages.js'
import { addEvent, forEachEvent, idThere } from '../messages.js'

/** Listeners of a {@link FrontSession}. */
export interface SessionListener {
  /** A request has arrived. */
  readonly onPlaced: (id: string, message: ToWorker & { readonly type: 'place' }) => void
  /** An event of a request. */
  readonly onEvent: (id: string, event: RequestEvent) => void
}

/** Calls that a front answers itself: a worker refuses them, as other fronts use it, too. */
const ofFront: ReadonlySet<EngineCallName> = new Set(['drain', 'close'])

/**
 * The requests and calls of one front at the engine. The events of a step are sent as one message. When the
 * link closes, all requests and calls are cancelled.
 */
export class FrontSession {
  readonly #requests = new Map<number, AbortController>()
  readonly #calls: CallServer
  /** Events of the current step that are not sent yet. */
  #events: StepEvents[number][] = []
  #isFlushing = false

  constructor(
    readonly front: string,
    private readonly link: NamedChannel<FromWorker, ToWorker>,
    private readonly client: EngineClient,
    private readonly listener: SessionListener,
  ) {
    this.#calls = new CallServer(
      client,
      (answer) => {
        if (!link.send(answer) && answer.type === 'result') throw tooLarge()
      },
      ({ name }) => {
        if (!ofFront.has(name)) return
        throw new CllmError('unsupported', `A worker does not ${name} for one`)
      },
    )
    link.onMessage((message) => this.#receive(message))
    link.onClose(() => this.#end())
  }

  /** The number of requests that have not ended. */
  get size(): number {
    return this.#requests.size
  }

  /** Sends a report, after the events of requests that it counts as ended. */
  tell(news: WorkerNews): void {
    this.#flush()
    this.link.send(news)
  }

  close(reason: string): void {
    this.link.close(reason)
  }

  #receive(message: ToWorker): void {
    if (message.type === 'place') void this.#serve(message)
    else if (message.type === 'cancel') {
      const reason = message.reason ?? cancelReason
      this.#requests.get(message.placement)?.abort(new CllmError('cancelled', reason))
    } else if (message.type === 'leave') this.#calls.leave(message.call)
    else if (message.type === 'call') void this.#calls.make(message)
    // Fails while the engine is started again.
    else if (message.type === 'served') this.client.noteService(message.services).catch(() => {})
  }

  async #serve(message: ToWorker & { readonly type: 'place' }): Promise<void> {
    const { placement, request } = message
    const controller = new AbortController()
    this.#requests.set(placement, controller)
    const own = idThere(this.link.id, placement, request.id)
    this.listener.onPlaced(own, message)
    try {
      const events = this.client.submit({ ...request, id: own }, { signal: controller.signal })
      for await (const event of events) {
        // Before the end is published, whose listeners may count the open requests.
        if (event.type === 'end') this.#requests.delete(placement)
        this.#publish(own, placement, event)
      }
    } catch (error) {
      this.#requests.delete(placement)
      this.#publish(own, placement, failureOf(error))
    }
  }

  /** Publishes an event. All events of a step arrive in one turn of the event loop, and are sent together behind it. */
  #publish(own: string, placement: number, event: RequestEvent): void {
    // Before the listener, whose report must be sent behind the event.
    addEvent(this.#events, placement, event)
    this.listener.onEvent(own, event)
    if (this.#isFlushing) return
    this.#isFlushing = true
    setImmediate(() => {
      this.#isFlushing = false
      this.#flush()
    })
  }

  #flush(): void {
    if (this.#events.length === 0) return
    const events = this.#events
    this.#events = []
    if (!this.link.send(events)) forEachEvent(events, (...one) => this.#sendOne(...one))
  }

  /** Sends a single event; one that is too large for an envelope only ends its own request. */
  #sendOne(placement: number, event: RequestEvent): void {
    const one: StepEvents[number][] = []
    addEvent(one, placement, event)
    if (this.link.send(one)) return
    const error = tooLarge()
    this.link.send([placement, failureOf(error)])
    this.#requests.get(placement)?.abort(error)
  }

  #end(): void {
    const error = new CllmError('cancelled', 'The front is gone')
    for (const controller of this.#requests.values()) controller.abort(error)
    this.#calls.leaveAll(error)
  }
}

const tooLarge = (): CllmError =>
  new CllmError('unsupported', 'The answer is too large for a message of the cluster')
