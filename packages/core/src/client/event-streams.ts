import type { AddressedEvent, GenerateEvent, RequestEvent } from '../contracts/engine-client.js'
import { CllmError } from '../errors/cllm-error.js'

/** One request's events as an iterator: what came is kept until it is asked for. */
class EventStream implements AsyncIterableIterator<GenerateEvent> {
  readonly #buffer: GenerateEvent[] = []
  #error: CllmError | undefined
  #isOver = false
  readonly #waiting: (() => void)[] = []

  /** `onOver` is called once, and told whether the consumer went before the end. */
  constructor(private readonly onOver: (hasLeft: boolean) => void) {}

  push(event: RequestEvent): void {
    if (event.type === 'error') this.fail(CllmError.deserialize(event.error))
    else if (!this.#isOver) {
      this.#buffer.push(event)
      if (event.type === 'end') this.#finish(false)
      this.#wake()
    }
  }

  fail(error: CllmError, hasLeft = false): void {
    if (this.#isOver) return
    this.#error = error
    this.#finish(hasLeft)
    this.#wake()
  }

  async next(): Promise<IteratorResult<GenerateEvent>> {
    while (this.#buffer.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    const value = this.#buffer.shift()
    if (value !== undefined) return { value, done: false }
    const error = this.#error
    this.#error = undefined
    if (error !== undefined) throw error
    return { value: undefined, done: true }
  }

  return(): Promise<IteratorResult<GenerateEvent>> {
    this.#buffer.length = 0
    this.#error = undefined
    this.#finish(true)
    this.#wake()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  /** Those who wait look again, in their order; who finds nothing waits on. */
  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  #finish(hasLeft: boolean): void {
    if (this.#isOver) return
    this.#isOver = true
    this.onOver(hasLeft)
  }
}

/** The streams of the requests under way: gives each one its events out of the steps' batches. */
export class EventStreams {
  readonly #streams = new Map<string, EventStream>()

  /**
   * Opens a stream and submits its request. When its consumer leaves or the signal aborts, the
   * request is cancelled.
   */
  open(
    id: string,
    signal: AbortSignal | undefined,
    request: { readonly submit: () => void; readonly cancel: (reason?: string) => void },
  ): AsyncIterableIterator<GenerateEvent> {
    if (this.#streams.has(id)) {
      const message = `A request with the id "${id}" is under way`
      return failed(new EventStream(() => {}), new CllmError('duplicate_request', message))
    }
    const onAbort = (): void => stream.fail(cancelled(signal), true)
    const stream = new EventStream((hasLeft) => {
      signal?.removeEventListener('abort', onAbort)
      this.#streams.delete(id)
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

  failAll(error: CllmError): void {
    for (const stream of this.#streams.values()) stream.fail(error)
  }
}

const cancelled = (signal: AbortSignal | undefined): CllmError =>
  new CllmError('cancelled', reasonOf(signal) ?? 'The request was cancelled')

/** Why the signal was aborted, where that was said. */
function reasonOf(signal: AbortSignal | undefined): string | undefined {
  const reason: unknown = signal?.reason
  return CllmError.isInstance(reason) ? reason.message : undefined
}

function failed(stream: EventStream, error: CllmError): EventStream {
  stream.fail(error)
  return stream
}
