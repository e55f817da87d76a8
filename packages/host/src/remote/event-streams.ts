import type {
  Random,
  AddressedEvent,
  GenerateEvent,
  GenerateEvents,
  RequestEvent,
} from '@cllm/core'
import { CllmError, cancelled, reasonOf } from '@cllm/core'
import type { Settling } from '../client/wrapping.js'
import { duplicate } from '../fleet/in-flight-request.js'

/** A call of `next()` that waits for an event. */
type Waiting = Settling<IteratorResult<GenerateEvent>>

/**
 * One request's events as an iterator: events are buffered until they are read. Waiting for an event makes a single
 * promise, as this happens for every token.
 */
class EventStream implements GenerateEvents {
  readonly #buffer: GenerateEvent[] = []
  #error: CllmError | undefined
  #isOver = false
  readonly #waiting: Waiting[] = []

  /** @param onOver called once, with whether the consumer left before the end */
  constructor(private readonly onOver: (hasLeft: boolean) => void) {}

  push(event: RequestEvent): void {
    if (event.type === 'error') return this.fail(CllmError.deserialize(event.error))
    if (this.#isOver) return
    const waiting = this.#waiting.shift()
    if (waiting === undefined) this.#buffer.push(event)
    else waiting.resolve({ value: event, done: false })
    if (event.type === 'end') this.#finish(false)
  }

  fail(error: CllmError, hasLeft = false): void {
    if (this.#isOver) return
    this.#error = error
    this.#finish(hasLeft)
  }

  next(): Promise<IteratorResult<GenerateEvent>> {
    const value = this.#buffer.shift()
    if (value !== undefined) return Promise.resolve({ value, done: false })
    return new Promise((resolve, reject) => {
      if (this.#isOver) this.#end({ resolve, reject })
      else this.#waiting.push({ resolve, reject })
    })
  }

  return(): Promise<IteratorResult<GenerateEvent>> {
    this.#buffer.length = 0
    this.#error = undefined
    this.#finish(true)
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  #finish(hasLeft: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.onOver(hasLeft)
    for (const waiting of this.#waiting.splice(0)) this.#end(waiting)
  }

  /** Ends a `next()`: the first one after a failure gets it, later ones the end. */
  #end({ resolve, reject }: Waiting): void {
    const error = this.#error
    this.#error = undefined
    if (error !== undefined) reject(error)
    else resolve({ value: undefined, done: true })
  }
}

/** Streams of requests in flight: distributes the events of a step to them. */
export class EventStreams {
  readonly #streams = new Map<string, EventStream>()
  readonly #onIdle: (() => void)[] = []

  /**
   * Opens a stream and submits its request. When its consumer leaves or the signal aborts, the
   * request is cancelled.
   */
  open(
    id: string,
    signal: AbortSignal | undefined,
    request: { readonly submit: () => void; readonly cancel: (reason?: string) => void },
  ): GenerateEvents {
    if (this.#streams.has(id)) {
      return failed(new EventStream(() => {}), duplicate(id))
    }
    const onAbort = (): void => stream.fail(cancelled(signal), true)
    const stream = new EventStream((hasLeft) => {
      signal?.removeEventListener('abort', onAbort)
      this.#streams.delete(id)
      if (this.#streams.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
      if (hasLeft) request.cancel(reasonOf(signal))
    })
    this.#streams.set(id, stream)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted === true) return failed(stream, cancelled(signal))
    try {
      request.submit()
    } catch (error) {
      return failed(stream, CllmError.from(error))
    }
    return stream
  }

  dispatch(events: readonly AddressedEvent[]): void {
    for (const { id, event } of events) this.#streams.get(id)?.push(event)
  }

  /** Ends a stream with an error, and cancels its request. */
  fail(id: string, error: CllmError): void {
    this.#streams.get(id)?.fail(error, true)
  }

  /** Resolves when no stream is open. */
  async idle(): Promise<void> {
    if (this.#streams.size > 0)
      await new Promise<void>((resolve) => void this.#onIdle.push(resolve))
  }

  failAll(error: CllmError): void {
    for (const stream of this.#streams.values()) stream.fail(error)
  }
}

function failed(stream: EventStream, error: CllmError): EventStream {
  stream.fail(error)
  return stream
}

/** 32 random hex digits. */
export function requestId(random: Random): string {
  let id = ''
  for (let part = 0; part < 4; part++) id += random.uint32().toString(16).padStart(8, '0')
  return id
}
